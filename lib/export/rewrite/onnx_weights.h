// Finds the weights of any ONNX model, writes them as a folder that can be tensorized, and replaces them by chains. The
// rest of the graph is unchanged.
#pragma once

#include "lib/export/graph_layers.h"
#include "lib/export/rewrite/onnx_left_out.h"
#include "lib/export/rewrite/onnx_uses.h"
#include "lib/io/onnx.h"

namespace comera::exporting {

// A constant matrix that can become a chain: at least one reader is a product or a lookup, which can read two factors
// instead. Other readers get the product of the factors. The stored constant may have leading sizes of 1.
struct OnnxWeight {
  std::string name;         // name of the constant, with a number if the name or the names of its chain are not unique
  bool table = false;       // only its rows are looked up: [rows, columns]
  bool transposed = false;  // stored as [out, in], or for a table as [columns, rows]
  std::int64_t rows = 0, columns = 0;  // linear: in, out; table: rows, columns
  OnnxConstant constant;
};

struct OnnxMatrices {
  std::vector<OnnxWeight> weights;
  std::vector<OnnxLeftOut> left_out;  // the largest first
};
OnnxMatrices find_matrices(const onnx::ModelProto& model);
std::vector<OnnxWeight> find_weights(const onnx::ModelProto& model);

// Number of weights of the graph that already are chains, from the metadata of put_chains() or of an export.
std::int64_t chains_of(const onnx::ModelProto& model);

// Writes the candidates as model.safetensors with an empty config.json: linear weights "<name>.weight" [out, in],
// tables [rows, columns], in the type that they have in the graph. Only floating-point types.
void write_weights_folder(io::OnnxFile& file, const std::string& path);

// Replaces the constants of all candidates that are chains in `weights` (names as above), and notes this in the
// metadata. Returns the number of replaced weights.
std::int64_t put_chains(onnx::ModelProto& model, const WeightReader& weights, GraphForm form);

}  // namespace comera::exporting
