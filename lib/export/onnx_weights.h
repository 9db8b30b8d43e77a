// Any ONNX model's weights: found, handed on as a folder that can be tensorized, and put back as chains. The rest of
// the graph stays as it is.
#pragma once

#include "lib/export/graph_layers.h"
#include "lib/export/onnx_left_out.h"
#include "lib/export/onnx_uses.h"
#include "lib/io/onnx.h"

namespace comera::exporting {

// A constant matrix that becomes a chain: a product or a lookup reads it, which can read two factors in its place. What
// else reads it reads their product. It may be stored with leading sizes of 1.
struct OnnxWeight {
  std::string name;         // of the constant; one that others have too, or whose chain would have theirs, is numbered
  bool table = false;       // only rows are looked up: [rows, columns]
  bool transposed = false;  // stored [out, in]; of a table, [columns, rows]
  std::int64_t rows = 0, columns = 0;  // linear: in, out; table: rows, columns
  OnnxConstant constant;
};

struct OnnxMatrices {
  std::vector<OnnxWeight> weights;
  std::vector<OnnxLeftOut> left_out;  // the largest first
};
OnnxMatrices find_matrices(const onnx::ModelProto& model);
std::vector<OnnxWeight> find_weights(const onnx::ModelProto& model);

// Weights of the graph that are chains already, as put_chains() or an export notes it.
std::int64_t chains_of(const onnx::ModelProto& model);

// The candidates as model.safetensors with an empty config.json: linear weights "<name>.weight" [out, in], tables
// [rows, columns], in the type that they have in the graph. Floating types only.
void write_weights_folder(io::OnnxFile& file, const std::string& path);

// The candidates that are chains in `weights` (names as above), in the place of their constants; the metadata says so.
// Answers how many.
std::int64_t put_chains(onnx::ModelProto& model, const WeightReader& weights, GraphForm form);

}  // namespace comera::exporting
