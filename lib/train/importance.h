// Estimates how much a weight changes when a rank entry is removed, for cuts that do not wait until entries have
// fallen.
#pragma once

#include "lib/train/chain_sizes.h"

namespace comera::train {

// The chains of read_diagonals() with every entry D_j replaced by D_j^2 per parameter that the entry costs. Entries
// that are not positive get 0. At the start of the late stage D_j^2 is the relative singular value of the bond
// (refactor.h).
std::vector<ChainDiagonals> importances(const Weights& weights);

}  // namespace comera::train
