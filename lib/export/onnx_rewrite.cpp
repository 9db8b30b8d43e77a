#include "lib/export/onnx_rewrite.h"

#include "lib/core/error.h"
#include "lib/core/hash.h"
#include "lib/export/onnx_views.h"
#include "lib/export/onnx_weights.h"

namespace comera::exporting {
namespace {

constexpr const char* mark = "source.hash";  // written last: the folder is whole, and from which file

std::string extracted(const std::string& source, const std::string& folder) {
  const std::string hash = hash_file(source) + "\n", marked = join_path(folder, mark);
  if (path_exists(marked) && read_file(marked, 256) == hash) return folder;
  io::OnnxFile file(source);
  hoist_constants(*file.model().mutable_graph());
  if (find_weights(file.model()).empty())
    fail_input("{}: no MatMul, Gemm or Gather of this graph reads a constant matrix, so there is nothing to tensorize", source);
  remove_tree(folder);
  write_weights_folder(file, folder);
  write_file_atomic(marked, hash);
  return folder;
}

onnx::ModelProto without_data(onnx::ModelProto model) {
  hoist_constants(*model.mutable_graph());
  for (onnx::TensorProto& tensor : *model.mutable_graph()->mutable_initializer())
    if (tensor.has_raw_data() && !tensor.raw_data().empty()) tensor.clear_raw_data();
  return model;
}

}  // namespace

struct OnnxSource::Shapes {
  onnx::ModelProto model;
};

OnnxSource::OnnxSource(std::string source, const std::string& folder)
    : source_(std::move(source)),
      shapes_(std::make_shared<Shapes>(Shapes{without_data(io::OnnxFile(source_).model())})),
      folder_(extracted(source_, folder)) {
  for (const OnnxWeight& weight : find_weights(shapes_->model))
    if (weight.table) tables_.insert(weight.name);
}

std::uint64_t OnnxSource::bytes_with(const std::vector<io::ChainSpec>& chains) const {
  onnx::ModelProto model = shapes_->model;
  if (!chains.empty()) put_chains(model, WeightReader(folder_, chains), GraphForm::tt);
  return io::planned_onnx_bytes(std::move(model), source_);
}

RewrittenOnnx OnnxSource::write(const std::string& chains, const std::string& output) const {
  io::OnnxFile file(source_);
  hoist_constants(*file.model().mutable_graph());
  RewrittenOnnx result;
  result.bytes_source = io::onnx_bytes(file.model());
  const io::ModelFolder made(chains);
  result.weights = put_chains(file.model(), WeightReader(made), GraphForm::tt);
  io::OnnxWritten written = io::write_onnx(output, file.model(), {.source = &file});
  result.bytes = written.bytes;
  result.files = std::move(written.files);
  io::OnnxFile again(output);  // what was written is a graph
  return result;
}

}  // namespace comera::exporting
