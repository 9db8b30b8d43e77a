// The ONNX files whose bytes tensorize counts.
#pragma once

#include <memory>
#include <string>

#include "lib/compress/plan/counted_file.h"
#include "lib/export/rewrite/onnx_rewrite.h"
#include "models/architecture.h"

namespace comera::exporting {

// The graph that `comera export` writes by default of a model folder: form tt, fp32.
class ExportedOnnx final : public compress::CountedFile {
 public:
  explicit ExportedOnnx(const std::string& model);  // InputError: no config.json, or an unknown architecture
  std::uint64_t dense_bytes() const override;
  std::uint64_t bytes(const std::vector<compress::LayerJob>& jobs, std::size_t size) const override;
  std::uint64_t third_core_bytes(const compress::LayerPlan& plan) const override;
  std::size_t element_bytes(io::StoredType) const override { return sizeof(float); }

 private:
  io::ModelFolder folder_;
  models::ModelSpec spec_;
};

// A graph of another program, with chains in place of its matrices.
class RewrittenGraph final : public compress::CountedFile {
 public:
  explicit RewrittenGraph(std::shared_ptr<const OnnxSource> source) : source_(std::move(source)) {}
  std::uint64_t dense_bytes() const override { return source_->bytes_with({}); }
  std::uint64_t bytes(const std::vector<compress::LayerJob>& jobs, std::size_t size) const override;
  std::uint64_t third_core_bytes(const compress::LayerPlan& plan) const override;

 private:
  std::shared_ptr<const OnnxSource> source_;
};

}  // namespace comera::exporting
