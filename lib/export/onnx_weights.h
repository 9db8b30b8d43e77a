// Any ONNX model's weights: found, handed on as a folder that can be tensorized, and put back as chains. The rest of the graph stays as it is.
#pragma once

#include "lib/export/graph_layers.h"
#include "lib/io/onnx.h"

namespace comera::exporting {

// A constant matrix that MatMul, Gemm or Gather reads. Only those whose readers all use it the same way are candidates.
struct OnnxWeight {
  std::string name;                    // of the initialiser
  bool table = false;                  // Gather along the first axis: [rows, columns]
  bool transposed = false;             // stored [out, in] (Gemm with transB, MatMul with its Transpose)
  std::int64_t rows = 0, columns = 0;  // linear: in, out; table: rows, columns
  std::vector<int> nodes;              // that read it
  std::int32_t type = 0;               // that they compute in
};
std::vector<OnnxWeight> find_weights(const onnx::ModelProto& model);

// The candidates as model.safetensors with an empty config.json: linear weights "<name>.weight" [out, in], tables [rows, columns], in the
// type that they have in the graph. Floating types only.
void write_weights_folder(io::OnnxFile& file, const std::string& path);

// The candidates that are chains in `weights` (names as above), in the place of their initialisers. Answers how many.
std::int64_t put_chains(onnx::ModelProto& model, const WeightReader& weights, GraphForm form);

}  // namespace comera::exporting
