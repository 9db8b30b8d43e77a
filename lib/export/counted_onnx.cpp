#include "lib/export/counted_onnx.h"

#include "lib/export/export.h"

namespace comera::exporting {
namespace {

const std::string& with_config(const std::string& model) {
  io::require_config("[tensorize] --budget-of onnx:", io::ModelFolder(model));
  return model;
}

// The layer's name is in two initialisers, three nodes and a shape. A graph stores one position per output where the
// weights store one per rank; the search has already counted the latter.
std::uint64_t node_bytes(const compress::LayerPlan& plan) {
  return 14 * plan.name.size() + 600 + 8 * static_cast<std::uint64_t>(plan.rank);
}

}  // namespace

ExportedOnnx::ExportedOnnx(const std::string& model)
    : folder_(with_config(model)), spec_(models::spec_from_folder(model)) {}

std::uint64_t ExportedOnnx::dense_bytes() const { return planned_onnx_bytes(folder_, spec_, {}, {}); }

std::uint64_t ExportedOnnx::bytes(const std::vector<compress::LayerJob>& jobs, std::size_t size) const {
  return planned_onnx_bytes(folder_, spec_, {}, compress::chains_at(jobs, size));
}

std::uint64_t ExportedOnnx::third_core_bytes(const compress::LayerPlan& plan) const { return node_bytes(plan); }

std::uint64_t RewrittenGraph::bytes(const std::vector<compress::LayerJob>& jobs, std::size_t size) const {
  return source_->bytes_with(compress::chains_at(jobs, size));
}

std::uint64_t RewrittenGraph::third_core_bytes(const compress::LayerPlan& plan) const { return node_bytes(plan); }

}  // namespace comera::exporting
