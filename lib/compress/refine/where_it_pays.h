// The rule of Refinement::When: which weights are trained with their block.
#pragma once

#include <vector>

#include "lib/compress/layer_job.h"
#include "lib/compress/settings.h"

namespace comera::compress {

// True for a compressed linear layer that `when` trains. It pays for a weight with ranks, or with fewer than 4 bits;
// training gains nothing for finer grids (docs/results/compression.md).
bool is_trained(const io::ChainSpec& chain, Refinement::When when);
bool is_trained(const LayerPlan& plan, Refinement::When when);

// Seconds that the training of all blocks takes at one size, estimated for two cores with AVX2.
double refinement_seconds(const std::vector<LayerJob>& jobs, const Refinement& refinement);

}  // namespace comera::compress
