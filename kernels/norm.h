// LayerNorm and RMSNorm over the last dimension, fused with the preceding residual sum and dropout:
//   s = residual + dropout(x);  y = norm(s) * gain (+ shift)
// LayerNorm: Ba et al. 2016, arXiv 1607.06450. RMSNorm: Zhang and Sennrich 2019, arXiv 1910.07467. The variance is
// biased; eps is added inside the root.
#pragma once

#include "kernels/types.h"

namespace comera::kernels {

struct NormForward {
  NormKind kind = NormKind::layer;
  std::int64_t tokens = 0, columns = 0;  // K, N
  double epsilon = 1e-5;
  const void* x = nullptr;         // [K, N]
  const void* residual = nullptr;  // [K, N], optional
  Dropout dropout;                 // of x, before the sum
  Dropout output_dropout;          // of y (embeddings); y = dropout(norm(s))
  const void* gain = nullptr;      // [N]
  const void* shift = nullptr;     // [N], optional (rms has none)
  void* sum = nullptr;             // s [K, N]; may be x; optional if residual and dropout are absent
  void* mean = nullptr;            // [K], written (layer)
  void* rstd = nullptr;            // [K], written
  void* y = nullptr;               // [K, N]
};

// Recomputes y from s and its statistics, with the same bits as NormForward.
struct NormApply {
  NormKind kind = NormKind::layer;
  std::int64_t tokens = 0, columns = 0;
  const void* sum = nullptr;
  const void* mean = nullptr;
  const void* rstd = nullptr;
  const void* gain = nullptr;
  const void* shift = nullptr;
  Dropout output_dropout;
  void* y = nullptr;
};

// d_sum = gradient of s through the norm (+ d_sum_in); dx = d_sum through the dropout mask. d_sum may be dy. dx may be
// d_sum if there is no dropout.
struct NormBackward {
  NormKind kind = NormKind::layer;
  std::int64_t tokens = 0, columns = 0;
  const void* dy = nullptr;
  const void* sum = nullptr;
  const void* mean = nullptr;
  const void* rstd = nullptr;
  const void* gain = nullptr;
  Dropout dropout;
  Dropout output_dropout;
  const void* d_sum_in = nullptr;  // [K, N], optional: gradient that reaches s through the residual stream (pre-LN)
  void* d_sum = nullptr;           // [K, N]: also the gradient of the residual
  void* dx = nullptr;              // [K, N], optional: gradient of x
  void* d_gain = nullptr;          // [N], accumulated
  void* d_shift = nullptr;         // [N], accumulated, optional
};

constexpr double flops(const NormForward& a) { return 8.0 * a.tokens * a.columns; }
constexpr double flops(const NormApply& a) { return 4.0 * a.tokens * a.columns; }
constexpr double flops(const NormBackward& a) { return 14.0 * a.tokens * a.columns; }

}  // namespace comera::kernels
