// Decay of the norm of weights that are products of cores, apart from their gradients, as AdamW decays a dense weight.
//
// The gradient of |W|^2 / 2 in core k is L G_k R: L is the Gram matrix of the product of what stands left of the core,
// R of what stands right of it, masked diagonals (rank_objective.h) included. With K cores, and l and r the means of
// the diagonals of L and R over the active entries of their bonds,
//     G_k -= s / (1 + s |L| |R|) L G_k R,   s = rate decay / (K l r), |.| the Frobenius norm.
// The denominator keeps the change below the core itself in every singular direction, whatever the rate and the decay
// are, because |L| and |R| bound the largest eigenvalues. It is near 1 for a small share, unless few singular values
// outweigh the others.
// If L and R are multiples of the identity, W shrinks by the share rate * decay in first order, as a dense weight does;
// otherwise its large singular values shrink more than the small ones. Decay of the cores themselves shrinks all
// singular values by the same share. It is the penalty of W's nuclear norm, which removes ranks that the task could use
// (Srebro, Rennie and Jaakkola 2004, Maximum-margin matrix factorization).
#pragma once

#include "kernels/chain.h"
#include "kernels/step_scalars.h"

namespace comera::kernels {

struct DecayingChain : BondedCores {
  void* values[max_cores] = {};           // G_k [r_{k-1}, s_k, r_k]
  const AdamwScalars* scalars = nullptr;  // the learning rate alone
};
// If the step's loss or gradient is not finite, nothing changes. A chain with an empty bond does not change.
struct ChainDecay {
  const DecayingChain* chains = nullptr;  // host memory
  int count = 0;
  double decay = 0, threshold = 0;
  const StepScalars* scalars = nullptr;
  int every = 1;  // only steps whose number is a multiple of it decay, by as many times the share
};

// The share of this step, rate * decay, with those of the steps that do not decay; 0: nothing changes.
constexpr double share_of(const ChainDecay& a, double rate) {
  const bool decays = a.scalars->finite != 0 && a.scalars->step % static_cast<std::uint64_t>(a.every) == 0;
  return decays ? rate * a.decay * a.every : 0;
}

constexpr double flops(const ChainDecay& a) {
  double sum = 0;
  for (int i = 0; i < a.count; ++i)
    for (int k = 0; k < a.chains[i].cores; ++k) {
      const DecayingChain& c = a.chains[i];
      const auto left = static_cast<double>(c.ranks[k]), right = static_cast<double>(c.ranks[k + 1]);
      sum += 6 * left * static_cast<double>(c.sizes[k]) * right * (left + right);
    }
  return sum / a.every;
}

// The factor of L G_k R. share: of the step, divided by the number of cores; means: l r; norms: |L| |R|. A weight that
// has vanished does not decay: s would leave the range of float32, and times entries of 0 it is no number.
constexpr double factor_of(double share, double means, double norms) {
  constexpr double vanished = 1e-30;
  if (means < vanished) return 0;
  const double s = share / means;
  return s / (1 + s * norms);
}

}  // namespace comera::kernels
