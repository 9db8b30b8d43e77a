// Estimates what the model loses with an entry of a rank diagonal.
#pragma once

#include "lib/train/chain_sizes.h"

namespace comera::train {

// The loss changes by about h D^2 / 2 without entry D, and where the model has learned, the curvature h is in
// proportion to the mean square of the gradient of D (Fisher's information; first-order Taylor importance of Molchanov
// et al. 2019, arXiv 1906.10771). So: D^2 times AdamW's second moment, whose gradients must be those of the loss alone
// since it was last 0. D^2 alone where that is not so (`by_gradients` false), or where no gradient was seen: D should
// then be a relative singular value (refactor.h). Negative entries count as 0. In the layout of read_diagonals().
std::vector<ChainDiagonals> importances(const Weights& weights, bool by_gradients);

}  // namespace comera::train
