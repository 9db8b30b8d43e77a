// Decay of the norm of weights that are products of cores, apart from their gradients, as AdamW decays a dense weight.
//
// The gradient of |W|^2 / 2 in core k is L G_k R: L is the Gram matrix of the product of what stands left of the core,
// R of what stands right of it, masked diagonals (rank_objective.h) included. With K cores, and l and r the means of
// the diagonals of L and R over the active entries of their bonds,
//     G_k -= rate decay / (K l r) L G_k R.
// If L and R are multiples of the identity, W shrinks by the share rate * decay in first order, as a dense weight does;
// otherwise its large singular values shrink more than the small ones. Decay of the cores themselves shrinks all
// singular values by the same share. It is the penalty of W's nuclear norm, which removes ranks that the task could use
// (Srebro, Rennie and Jaakkola 2004, Maximum-margin matrix factorization).
#pragma once

#include "kernels/chain.h"
#include "kernels/step_scalars.h"

namespace comera::kernels {

struct DecayingChain {
  int cores = 0;
  std::int64_t sizes[max_cores] = {};      // s_k: stored entries of a core per pair of rank indices
  std::int64_t ranks[max_cores + 1] = {};  // first and last 1
  void* values[max_cores] = {};            // G_k [r_{k-1}, s_k, r_k]
  const void* diagonals[max_cores] = {};   // cores - 1; null: ones
  const AdamwScalars* scalars = nullptr;   // the learning rate alone
};
// If the step's loss or gradient is not finite, nothing changes. A chain with an empty bond does not change.
struct ChainDecay {
  const DecayingChain* chains = nullptr;  // host memory
  int count = 0;
  double decay = 0, threshold = 0;
  const StepScalars* scalars = nullptr;
};

constexpr double flops(const ChainDecay& a) {
  double sum = 0;
  for (int i = 0; i < a.count; ++i)
    for (int k = 0; k < a.chains[i].cores; ++k) {
      const DecayingChain& c = a.chains[i];
      const auto left = static_cast<double>(c.ranks[k]), right = static_cast<double>(c.ranks[k + 1]);
      sum += 6 * left * static_cast<double>(c.sizes[k]) * right * (left + right);
    }
  return sum;
}

}  // namespace comera::kernels
