// Dot products of the feature vectors of an example, the interaction of DLRM (Naumov et al. 2019, arXiv 1906.00091,
// section 2.1.4).
#pragma once

#include "kernels/types.h"

namespace comera::kernels {

constexpr int most_vectors = 128;  // F

// Columns of y for F vectors of N numbers.
constexpr std::int64_t interaction_columns(std::int64_t vectors, std::int64_t columns) {
  return columns + vectors * (vectors - 1) / 2;
}
// Column of x_i . x_j behind the first N; j < i.
constexpr std::int64_t pair_index(std::int64_t i, std::int64_t j) { return i * (i - 1) / 2 + j; }

// y[b] = (x_0[b], x_1[b].x_0[b], x_2[b].x_0[b], x_2[b].x_1[b], x_3[b].x_0[b], ...)
struct InteractionForward {
  std::int64_t rows = 0, vectors = 0, columns = 0;  // B, F, N
  const void* x[most_vectors] = {};                 // F of [B, N]
  void* y = nullptr;                                // [B, interaction_columns(F, N)]
};
// dx are overwritten.
struct InteractionBackward {
  std::int64_t rows = 0, vectors = 0, columns = 0;
  const void* x[most_vectors] = {};
  const void* dy = nullptr;
  void* dx[most_vectors] = {};
};

constexpr double flops(const InteractionForward& a) {
  return 1.0 * static_cast<double>(a.rows) * static_cast<double>(a.vectors * (a.vectors - 1) * a.columns);
}
constexpr double flops(const InteractionBackward& a) {
  return 2.0 * static_cast<double>(a.rows) * static_cast<double>(a.vectors * (a.vectors - 1) * a.columns);
}

}  // namespace comera::kernels
