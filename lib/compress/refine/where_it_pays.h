// The rule of Refinement::When::where_it_pays.
#pragma once

#include <vector>

#include "lib/compress/layer_job.h"
#include "lib/compress/settings.h"

namespace comera::compress {

// True for a weight with ranks, or with fewer than 4 bits. Training gains nothing for finer grids
// (docs/results/compression.md).
bool gains_by_refinement(const io::ChainSpec& chain);
bool gains_by_refinement(const LayerPlan& plan);

// Seconds that the training of all blocks takes at one size, estimated for two cores with AVX2.
double refinement_seconds(const std::vector<LayerJob>& jobs, const Refinement& refinement);

}  // namespace comera::compress
