#include "lib/export/rewrite/onnx_rewrite.h"

#include "lib/core/error.h"
#include "lib/core/hash.h"
#include "lib/export/rewrite/onnx_graphs.h"
#include "lib/export/rewrite/onnx_weights.h"

namespace comera::exporting {
namespace {

// Written last: marks the folder as complete and holds the hash of its source file.
constexpr const char* mark = "source.hash";

std::string extracted(const std::string& source, const std::string& folder) {
  const std::string hash = hash_file(source) + "\n", marked = join_path(folder, mark);
  if (path_exists(marked) && read_file(marked, 256) == hash) return folder;
  io::OnnxFile file(source);
  remove_tree(folder);
  write_weights_folder(file, folder);
  write_file_atomic(marked, hash);
  return folder;
}

void check_opset(const onnx::ModelProto& model, const std::string& source) {
  const std::int64_t opset = opset_of(model);
  if (opset < oldest_read_opset || opset > newest_read_opset)
    fail_input(
        "{}: its graph is written for opset {}; those of {} to {} are read, convert it with onnx.version_converter",
        source, opset, oldest_read_opset, newest_read_opset);
}

void check_fresh(const onnx::ModelProto& model, const std::string& source) {
  if (const std::int64_t chains = chains_of(model))
    fail_input(
        "[tensorize] {}: is tensorized already, {} of its weights are chains; use --again to compress what is still "
        "dense",
        source, chains);
}

void check_found(const OnnxMatrices& found, std::int64_t chains, const std::string& source) {
  if (!found.weights.empty()) return;
  if (found.left_out.empty() && chains > 0)
    fail_input("{}: {} of its weights are chains already, and none is left to tensorize", source, chains);
  if (found.left_out.empty())
    fail_input("{}: no MatMul, Gemm or Gather of this graph reads a constant matrix, so there is nothing to tensorize",
               source);
  const OnnxLeftOut& first = found.left_out[0];
  const std::size_t more = found.left_out.size() - 1;
  fail_input(
      "{}: no constant of this graph can become a chain: {}: {}{}", source, first.name, first.why,
      more == 0 ? "" : fmt::format("; {} smaller one{} stay{} too", more, more == 1 ? "" : "s", more == 1 ? "s" : ""));
}

onnx::ModelProto without_data(onnx::ModelProto model) {
  for (onnx::TensorProto* tensor : io::onnx_tensors(*model.mutable_graph()))
    if (tensor->has_raw_data() && !tensor->raw_data().empty()) tensor->clear_raw_data();
  return model;
}

// The graph without data. Throws if it cannot be tensorized.
onnx::ModelProto checked(const std::string& source, bool again) {
  onnx::ModelProto model = without_data(io::OnnxFile(source).model());
  check_opset(model, source);
  if (!again) check_fresh(model, source);
  check_found(find_matrices(model), chains_of(model), source);
  return model;
}

}  // namespace

struct OnnxSource::Shapes {
  onnx::ModelProto model;
};

OnnxSource::OnnxSource(std::string source, const std::string& folder, bool again)
    : source_(std::move(source)),
      shapes_(std::make_shared<Shapes>(Shapes{checked(source_, again)})),
      folder_(extracted(source_, folder)) {
  OnnxMatrices found = find_matrices(shapes_->model);
  for (const OnnxWeight& weight : found.weights)
    if (weight.table) tables_.insert(weight.name);
  left_out_ = std::move(found.left_out);
}

std::uint64_t OnnxSource::bytes_with(const std::vector<io::ChainSpec>& chains) const {
  onnx::ModelProto model = shapes_->model;
  if (!chains.empty()) put_chains(model, WeightReader(folder_, chains), GraphForm::tt);
  return io::planned_onnx_bytes(std::move(model), source_);
}

RewrittenOnnx OnnxSource::write(const std::string& chains, const std::string& output) const {
  io::OnnxFile file(source_);
  RewrittenOnnx result;
  result.bytes_source = io::onnx_bytes(file.model());
  const io::ModelFolder made(chains);
  result.weights = put_chains(file.model(), WeightReader(made), GraphForm::tt);
  io::OnnxWritten written = io::write_onnx(output, file.model(), {.source = &file});
  result.bytes = written.bytes;
  result.files = std::move(written.files);
  io::OnnxFile again(output);  // throws if the written file is not a graph
  return result;
}

}  // namespace comera::exporting
