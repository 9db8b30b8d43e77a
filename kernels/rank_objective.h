// The size part of CoMERA's objective (arXiv 2405.14377, section 3): the sizes of all TT and TTM layers as functions of
// their rank diagonals, the gradient of the penalty, and the decision of the late stage. All results are device
// scalars, so a step never waits for the host.
//
// Masked diagonals: D~ = D where D > threshold, else 0. A chain has entry sizes s_1..s_n (s_k = mode, or row mode *
// column mode) and R_k = #(D_k > threshold), R_0 = R_n = 1.
//   S  = sum_k R_{k-1} s_k R_k                   true size; a chain with an empty bond counts 0
//   S^ = sum_k |D~_{k-1}|_1 s_k |D~_k|_1         its surrogate
//   dS^/dD_k[j] = [D_k[j] > threshold] (s_k |D~_{k-1}|_1 + s_{k+1} |D~_{k+1}|_1)
//   mean penalty (as in the released code): sum of D~ / number of active entries, 0 if there are none
// Sums are in double.
#pragma once

#include "kernels/chain.h"
#include "kernels/step_scalars.h"

namespace comera::kernels {

struct RankChain : BondedCores {
  void* d_diagonals[max_cores] = {};  // accumulated
};

// Measures S and S^, and computes the two weights from the loss of the step:
//   early: loss_weight = 1, size_weight = gamma / surrogate_start
//   late, w1 (L - L0) >= w2 (S - S0) or reached:
//          loss_weight = w1' + rho_loss, size_weight = rho_size / surrogate_start
//   late, otherwise:
//          loss_weight = rho_loss, size_weight = (w2' + rho_size) / surrogate_start
// with w1' = w2' = 1: w1 and w2 only enter the comparison, the minimised terms have weight 1 as in the released code.
// size_weight is 0 once the target is reached.
struct RankMeasure {
  const RankChain* chains = nullptr;  // host memory
  int count = 0;
  double threshold = 0;
  RankPenalty penalty = RankPenalty::size;
  const double* loss = nullptr;  // the step's mean loss
  RankState* state = nullptr;
};
// d_diagonals = d_diagonals * loss_weight + size_weight * gradient of the penalty. WeighGradient applies loss_weight to
// all other gradients.
struct RankPenaltyGradient {
  const RankChain* chains = nullptr;
  int count = 0;
  double threshold = 0;
  RankPenalty penalty = RankPenalty::size;
  const RankState* state = nullptr;
};
struct WeighedTensor {
  std::int64_t count = 0;
  void* gradient = nullptr;
  const void* value = nullptr;  // null if decay is 0
  double decay = 0;
};
// gradient = gradient * loss_weight + weight_norm * decay * value for many tensors. For cores, decay * value is 2 beta
// G, the gradient of beta |G|^2.
struct WeighGradient {
  const WeighedTensor* tensors = nullptr;  // host memory
  int count = 0;
  const RankState* state = nullptr;
};

constexpr double flops(const RankMeasure&) { return 0; }
constexpr double flops(const RankPenaltyGradient&) { return 0; }
constexpr double flops(const WeighGradient& a) {
  double sum = 0;
  for (int i = 0; i < a.count; ++i) sum += 3.0 * a.tensors[i].count;
  return sum;
}

}  // namespace comera::kernels
