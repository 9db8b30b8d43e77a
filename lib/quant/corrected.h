// A weight on a grid and a low-rank correction beside it: W = Q + A B.
#pragma once

#include <functional>

#include "lib/quant/rounding.h"
#include "lib/tt/data_aware.h"

namespace comera::quant {

struct Corrected {
  Quantised base;
  tt::Pair correction;  // left [in x k], right [k x out]; k = 0: none
};

tt::Matrix expand(const Corrected& weight);  // [in x out]

// How the factors of a correction are rounded where they are stored.
using RoundFactors = std::function<void(tt::Pair& factors)>;

// Known statistics of a layer's inputs: sums of x xᵀ that weights are fitted to, and that choose among fits.
struct Inputs {
  const tt::KeptMatrix& fit;
  const tt::KeptMatrix& held;
};

// The best Q + A B of correction rank `rank` that alternating steps find: Q is fit_linear() of W - A B, and A B the
// best low-rank matrix for W - Q under S (LQER, QERA and EoRA take one such step). It starts once from Q and once from
// A B, `rounds` times, and keeps the fit with the least error on held-out inputs.
Corrected fit_corrected(const tt::Matrix& weight, const Inputs& inputs, Grid grid, std::int64_t rank,
                        const RoundFactors& round, const FitOptions& options = {}, int rounds = 2);

}  // namespace comera::quant
