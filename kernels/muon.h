// Muon (Jordan et al. 2024, github.com/KellerJordan/Muon) for many small matrices in one call: the momentum is replaced
// by a matrix with the same singular vectors and singular values near 1. Its step is scaled to the size of AdamW's, so
// that rates and decays of AdamW keep their meaning (Liu et al. 2025, arXiv 2502.16982, section 2.2).
//
// A core G [r, s, q] of a tensor train is a matrix in two ways, [r s, q] and [r, s q].
#pragma once

#include <cmath>

#include "kernels/philox.h"
#include "kernels/step_scalars.h"

namespace comera::kernels {

struct MuonTensor {
  std::int64_t rows = 0, columns = 0;  // of the matrix, row major
  void* value = nullptr;
  const void* gradient = nullptr;
  void* momentum = nullptr;
  const AdamwScalars* scalars = nullptr;  // learning_rate, weight_decay
  float rate_scale = 1;
};
// g = gradient * gradient_scale; M = b M + (1 - b) g; U = b M + (1 - b) g (Nesterov); X = U / |U|, |.| the Frobenius
// norm; `muon_iterations` times X = (x1 I + x3 X X^T + x5 (X X^T)^2) X;
// w -= lr rate_scale (wd w + .2 sqrt(max(rows, columns)) X).
// A matrix whose U is 0 has X = 0. Changes nothing if scalars->finite is 0.
struct Muon {
  const MuonTensor* tensors = nullptr;  // host memory
  int count = 0;
  double momentum = 0.95;
  const StepScalars* scalars = nullptr;
};

// A core G [r, s, q], or a matrix [r, q] with s = 1, as a matrix: [r s, q] if r <= q and [r, s q] otherwise. The larger
// rank, towards the middle of the train, is one side; so the factors of a low-rank weight are matrices as they are.
constexpr MuonTensor muon_core(std::int64_t left, std::int64_t middle, std::int64_t right) {
  MuonTensor tensor;
  tensor.rows = left <= right ? left * middle : left;
  tensor.columns = left <= right ? right : middle * right;
  return tensor;
}

// The polynomial of Jordan et al. takes singular values from .0015 to 1 into [.67, 1.21] in five iterations.
constexpr int muon_iterations = 5;
struct MuonPolynomial {
  float x1 = 3.4445F, x3 = -4.775F, x5 = 2.0315F;
};

// X is kept with its longer side first: then X^T X is the small square matrix, and X = X (x1 I + x3 S + x5 S^2).
struct MuonShape {
  std::int64_t longer, shorter;
  bool turned;  // the value has its shorter side first
};
COMERA_HD constexpr MuonShape muon_shape(std::int64_t rows, std::int64_t columns) {
  return rows < columns ? MuonShape{columns, rows, true} : MuonShape{rows, columns, false};
}

// The same for one element in float, for kernels.
struct MuonFactors {
  float scale, momentum, rest, decay, rate;

  COMERA_HD MuonFactors(const AdamwScalars& s, double gradient_scale, double momentum_share, double rate_scale)
      : scale(static_cast<float>(gradient_scale)),
        momentum(static_cast<float>(momentum_share)),
        rest(static_cast<float>(1 - momentum_share)),
        decay(static_cast<float>(s.weight_decay)),
        rate(static_cast<float>(s.learning_rate * rate_scale)) {}
};
COMERA_HD inline float mixed(const MuonFactors& f, float momentum, float g) {
  return fmaf(f.momentum, momentum, f.rest * (g * f.scale));
}
// 1 / |U|; 0 for a matrix of zeros.
COMERA_HD inline float muon_inverse(double square_sum) {
  return square_sum > 0 ? static_cast<float>(1 / sqrt(square_sum)) : 0.0F;
}
COMERA_HD inline float muon_size(std::int64_t longer) { return 0.2F * sqrtf(static_cast<float>(longer)); }
COMERA_HD inline float stepped(const MuonFactors& f, float size, float value, float x) {
  return fmaf(-f.rate, fmaf(f.decay, value, size * x), value);
}

// Counts the way that takes the fewest operations, that of the CPU (kernels/cpu/muon.cpp).
constexpr double flops(const Muon& a) {
  double sum = 0;
  for (int i = 0; i < a.count; ++i) {
    const MuonShape s = muon_shape(a.tensors[i].rows, a.tensors[i].columns);
    const auto longer = static_cast<double>(s.longer), shorter = static_cast<double>(s.shorter);
    sum += (8 * longer + 28 * shorter) * shorter * shorter + 10 * longer * shorter;
  }
  return sum;
}

}  // namespace comera::kernels
