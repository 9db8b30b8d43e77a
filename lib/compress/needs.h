// Memory and disk space that calibration needs for a model.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/compress/layer_job.h"
#include "models/spec.h"

namespace comera::compress {

struct CalibrationNeeds {
  // The activations of one batch, and the most that any layer needs for its moments, its fit and its trial; or what the
  // refinement of a block needs, if that is more.
  std::uint64_t memory = 0;
  // On the disk while it runs: block outputs and targets for the text, and layers as compressed so far, at all sizes.
  std::uint64_t scratch = 0;
};

// `model`: what the text runs through; null: the layers of `jobs`. `refinement`: bytes of memory that it takes
// (refine/refinement_needs.h); 0: no block is refined.
CalibrationNeeds calibration_needs(const std::vector<LayerJob>& jobs, const io::ModelFolder& folder,
                                   const models::Spec* model, std::size_t sizes, std::uint64_t refinement);

}  // namespace comera::compress
