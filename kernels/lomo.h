// Updates inside the backward, each when its gradient is finished, so that one gradient is alive at a time:
//   LOMO (Lv et al. 2023, arXiv 2306.09782): W = (1 - lr wd) W - lr c G, with c = min(1, clip / |G|) of this gradient;
//   AdaLomo (Lv et al. 2023, arXiv 2310.10195): G by the means r, c of its squares over rows and columns,
//     U_ij = G_ij sqrt(mean(r) / (r_i c_j)), W = (1 - h wd) W - h U / max(1, rms(U) / threshold),
//     h = lr max(least, rms(W)).
// Both end in W = factors[0] W + factors[1] U. `applied` is the sum of squares of the step's gradients so far. If it or
// the loss is not finite, an update and all later ones of the step change nothing.
#pragma once

#include <cmath>

#include "kernels/philox.h"
#include "kernels/step_scalars.h"

namespace comera::kernels {

// factors = {1 - lr wd, -lr c}, or {1, 0}. *applied += *square.
struct LomoFactors {
  double clip = 0;                 // of the norm of this gradient; 0: none
  const double* square = nullptr;  // |G|^2
  const double* loss = nullptr;
  const AdamwScalars* group = nullptr;  // learning_rate, weight_decay
  double* applied = nullptr;
  double* factors = nullptr;  // [2]
};

// row = b row + (1 - b) (mean over columns of G^2 + floor), column likewise, with b = 1 - t^decay in step t = 1, 2, ...
// *applied += |G|^2. G [rows, columns] is of the parameters' type.
struct AdaLomoMeans {
  std::int64_t rows = 0, columns = 0;
  double decay = -0.8, floor = 1e-30;
  const void* gradient = nullptr;
  const double* loss = nullptr;
  const StepScalars* scalars = nullptr;  // step
  double* applied = nullptr;
  double* row = nullptr;     // [rows]
  double* column = nullptr;  // [columns]
};

// factors = {1 - h wd, -h sqrt(mean(r)) / max(1, rms(U) / threshold)}, or {1, 0}. G and W are of the parameters' type.
struct AdaLomoFactors {
  std::int64_t rows = 0, columns = 0;
  double threshold = 1, least = 1e-3;
  const double* row = nullptr;
  const double* column = nullptr;
  const void* gradient = nullptr;
  const void* value = nullptr;
  const double* loss = nullptr;
  const double* applied = nullptr;
  const AdamwScalars* group = nullptr;  // learning_rate, weight_decay
  double* factors = nullptr;            // [2]
};

// value = factors[0] value + factors[1] G_ij / sqrt(row_i column_j); nothing if factors[1] is 0.
struct LomoAdd {
  std::int64_t rows = 0, columns = 0;
  const double* factors = nullptr;
  const double* row = nullptr;     // optional, with `column`; without both: G_ij itself
  const double* column = nullptr;  // optional
  const void* gradient = nullptr;
  void* value = nullptr;
};

// Both may be applied: NaN and infinity less themselves are NaN.
COMERA_HD inline bool may_apply(double applied, double loss) { return applied - applied == 0 && loss - loss == 0; }

COMERA_HD inline void write_factors(const LomoFactors& a) {
  *a.applied += *a.square;
  a.factors[0] = 1, a.factors[1] = 0;
  if (!may_apply(*a.applied, *a.loss)) return;
  const double norm = sqrt(*a.square), clip = a.clip > 0 && norm > a.clip ? a.clip / norm : 1;
  a.factors[0] = 1 - a.group->learning_rate * a.group->weight_decay;
  a.factors[1] = -a.group->learning_rate * clip;
}

COMERA_HD inline double share_of_old(const AdaLomoMeans& a) {
  return 1 - pow(static_cast<double>(a.scalars->step + 1), a.decay);
}

// Sums over the elements of U / sqrt(mean(r)) and of W.
struct AdaLomoSums {
  double update = 0, value = 0, rows = 0;  // rows: the sum of `row`
};

COMERA_HD inline void write_factors(const AdaLomoFactors& a, const AdaLomoSums& sums) {
  a.factors[0] = 1, a.factors[1] = 0;
  if (!may_apply(*a.applied, *a.loss)) return;
  const double count = static_cast<double>(a.rows) * static_cast<double>(a.columns);
  const double mean = sums.rows / static_cast<double>(a.rows), size = sqrt(mean * sums.update / count) / a.threshold;
  const double root = sqrt(sums.value / count), rate = a.group->learning_rate * (root > a.least ? root : a.least);
  a.factors[0] = 1 - rate * a.group->weight_decay;
  a.factors[1] = -rate * sqrt(mean) / (size > 1 ? size : 1);
}

constexpr double flops(const LomoFactors&) { return 0; }
constexpr double flops(const AdaLomoMeans& a) { return 4.0 * a.rows * a.columns; }
constexpr double flops(const AdaLomoFactors& a) { return 6.0 * a.rows * a.columns; }
constexpr double flops(const LomoAdd& a) { return (a.row ? 5.0 : 3.0) * a.rows * a.columns; }

}  // namespace comera::kernels
