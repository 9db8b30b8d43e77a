// The stage `fitted`: fits the layers at all sizes and stores the chains in the work folder.
#pragma once

#include "lib/compress/fit/work.h"
#include "lib/compress/layer_job.h"
#include "lib/compress/refine/block_outcome.h"
#include "lib/compress/settings.h"

namespace comera::compress {

struct FitInputs {
  const io::ModelFolder& folder;
  InputMoments* moments;  // null: no calibration
  bool sequential;        // calibration runs with the compressed layers so far
  const Refinement& refinement;
};

// Fills the outcome of every job at every size. Takes layers and blocks that `work` already holds from there. Returns
// the refined blocks of every size. Throws Stopped on a signal.
std::vector<BlockOutcomes> fit_layers(std::vector<LayerJob>& jobs, const FitInputs& inputs, WorkFolder& work);

}  // namespace comera::compress
