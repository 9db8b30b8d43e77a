// Estimates how much the loss rises when a rank entry is removed. Scheduled cuts use this estimate if the diagonals
// have not fallen and carry little information.
#pragma once

#include "lib/train/chain_sizes.h"

namespace comera::train {

// By chain and bond, in the order of read_diagonals().
using Sensitivity = std::vector<std::vector<std::vector<double>>>;

// The optimiser's estimate of the loss's curvature along each diagonal entry: the state of that number, such as AdamW's
// second moment. 1 everywhere if the optimiser has none.
Sensitivity sensitivity_of(const Weights& weights, std::optional<std::size_t> curvature);
void keep_of(Sensitivity& sensitivity, const Kept& kept);

// The chains of read_diagonals() with every entry D_j replaced by D_j^2 F_j per parameter that the entry costs. Half of
// D_j^2 times the curvature is the rise of the loss when D_j becomes 0 (LeCun, Denker and Solla 1990, "Optimal brain
// damage"). Entries that are not positive get 0.
std::vector<ChainDiagonals> importances(const Weights& weights, const Sensitivity& sensitivity);

}  // namespace comera::train
