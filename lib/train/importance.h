// How much of a weight each rank entry carries: what an enforced cut goes by, where the values of the diagonals alone do not tell.
#pragma once

#include "lib/train/chain_sizes.h"

namespace comera::train {

// The chains of read_chains() with every diagonal entry j of a bond replaced by its share |W_j|_F^2 / |W|_F^2 per parameter that it
// costs, where W = sum_j W_j is split at that bond. Masked entries (at or below `threshold`) have share 0.
std::vector<Chain> importances(const Weights& weights, double threshold);

}  // namespace comera::train
