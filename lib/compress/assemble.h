// The compressed folder: its bytes before it is written, and the stage `stored`, which builds it from the dense folder
// and the finished layers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/compress/check/certificate.h"
#include "lib/compress/plan/counted_file.h"

namespace comera::compress {

// The weights files of the compressed folder. Their size is a few bytes below the bound.
class WeightsFiles final : public CountedFile {
 public:
  // `folder` must outlive the object. `calibration` becomes part of the certificate. `refined`: blocks are refined.
  WeightsFiles(const io::ModelFolder& folder, std::optional<MomentsInfo> calibration, bool refined = false)
      : folder_(folder), calibration_(std::move(calibration)), refined_(refined) {}
  std::uint64_t dense_bytes() const override { return folder_.bytes(); }
  std::uint64_t bytes(const std::vector<LayerJob>& jobs, std::size_t size) const override;
  std::uint64_t third_core_bytes(const LayerPlan& plan) const override;

 private:
  const io::ModelFolder& folder_;
  std::optional<MomentsInfo> calibration_;
  bool refined_;
};

// Source of the parts of a compressed folder that are no layers.
struct DenseParts {
  const io::ModelFolder& folder;
  const std::optional<io::ComeraBlock>& block;  // of a model that already has chains
  // Files with biases and norms that replace those of the folder.
  std::vector<std::string> vectors = {};
  io::Reading reading = {};
};

// Writes the layers of this size to the folder `output` atomically: weights in as many shards as the source has,
// config.json with the `comera` block, side files. InputError with the tensor's name if a dense number is not finite.
io::CopiedFiles assemble(const std::vector<LayerJob>& jobs, std::size_t size, const DenseParts& dense,
                         const std::optional<MomentsInfo>& calibration, const std::string& output);

}  // namespace comera::compress
