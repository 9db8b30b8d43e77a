#include "lib/export/onnx_rewrite.h"

#include "lib/core/error.h"
#include "lib/export/onnx_weights.h"

namespace comera::exporting {
namespace {

std::uint64_t stored_bytes(const io::OnnxFile& file) { return io::onnx_bytes(file.model()); }

}  // namespace

void extract_onnx_weights(const std::string& source, const std::string& folder) {
  io::OnnxFile file(source);
  if (find_weights(file.model()).empty())
    fail_input("{}: no MatMul, Gemm or Gather of this graph reads a constant matrix, so there is nothing to tensorize", source);
  write_weights_folder(file, folder);
}

RewrittenOnnx rewrite_onnx(const std::string& source, const std::string& folder, const std::string& output, GraphForm form) {
  io::OnnxFile file(source);
  RewrittenOnnx result;
  result.bytes_source = stored_bytes(file);
  const io::ModelFolder chains(folder);
  result.weights = put_chains(file.model(), WeightReader(chains), form);
  result.bytes = io::write_onnx(output, file.model(), {.source = &file}).bytes;
  io::OnnxFile again(output);  // what was written is a graph
  return result;
}

}  // namespace comera::exporting
