// What the model loses with an entry of a rank diagonal.
#pragma once

#include "lib/train/chain_sizes.h"

namespace comera::train {

// Without entry D the loss changes by about h D^2 / 2, where the curvature h grows with the mean square of the
// gradient of D (Molchanov et al. 2019, arXiv 1906.10771, equation 8): D^2 times AdamW's second moment. Gradients must
// be those of the loss alone, since the moments were last 0. D^2 alone where no gradient has been seen
// (`by_gradients` false, or moments of 0): then D should be a relative singular value (refactor.h), and layers are
// compared by the shape of their spectra. Negative entries count as 0. In the layout of read_diagonals().
std::vector<ChainDiagonals> importances(const Weights& weights, bool by_gradients);

}  // namespace comera::train
