// The time that a run of tensorize takes on this machine, from samples of its work that take seconds.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/host/thread_pool.h"
#include "lib/compress/layer_job.h"
#include "lib/compress/settings.h"

namespace comera::compress {

// Seconds. Not part of it: reading and writing files, the word table that also decodes on a grid, whose effect is
// probed, and the comparison with the dense model at the end.
struct TimeNeeds {
  double plan = 0;        // losses and effects of all layers; as long as it has just taken
  double text = 0;        // passes of the calibration text, and moments
  double fits = 0;        // of all layers at all sizes
  double refinement = 0;  // of all blocks at all sizes

  double all() const { return plan + text + fits + refinement; }
};

// The work of a run that has these plans at `sizes` sizes. A fit is sampled once per form and shape of weights, on
// random numbers of at most 512 inputs and outputs, and scaled by the operations; passes and steps of refinement on one
// batch of a block, which is scaled by tokens and blocks. `moments`: null: no calibration. `plan` is left at 0.
TimeNeeds sampled_times(const std::vector<LayerJob>& jobs, std::size_t sizes, const Settings& settings,
                        InputMoments* moments, kernels::ThreadPool& pool);

}  // namespace comera::compress
