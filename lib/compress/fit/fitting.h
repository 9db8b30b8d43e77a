// The stage `fitted`: fits the layers at all sizes and stores the chains in the work folder.
#pragma once

#include "lib/compress/fit/work.h"
#include "lib/compress/layer_job.h"

namespace comera::compress {

struct FitInputs {
  const io::ModelFolder& folder;
  InputMoments* moments;  // null: no calibration
  bool sequential;        // calibration runs with the compressed layers so far
};

// Fills the outcome of every job at every size. Takes layers that `work` already holds from there. Throws Stopped on a
// signal.
void fit_layers(std::vector<LayerJob>& jobs, const FitInputs& inputs, WorkFolder& work);

}  // namespace comera::compress
