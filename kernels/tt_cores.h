// Merges cores into the left and right factor, and maps the factors' gradients back to the cores. This part of a TT
// layer does not depend on the batch and runs once per step for all layers.
//
// W [M x N], M = m_1..m_d, N = n_1..n_e, cores G_k [r_{k-1}, s_k, r_k] over s = (m_1..m_d, n_1..n_e), rank diagonals
// D_k on the d+e-1 inner bonds. Masked diagonals: D~ = D where D > threshold, else 0 (strict, compared in double). G~_k
// = G_k D~_k; the last core is used as it is.
//   A = G~_1 .. G~_d [M x r_d],  B = G~_{d+1} .. G_{d+e} [r_d x N]
// Inputs may be permuted before they are split into modes: row p of the chain's A is row order[p] of A.
// B may contain an identity block (a gauge; e = 1). Then column gauge[r] of B is the unit vector e_r, and the one core
// of the right factor, stored as [r_d, N - r_d, 1], holds the other columns from left to right.
// Gradients: dG_k = dG~_k D~_k; dD_k[j] = [D_k[j] > threshold] sum dG~_k[:,:,j] G_k[:,:,j].
// A low-rank pair has d = 1. Source: CoMERA (arXiv 2405.14377), section 3. Contraction order: partial products from
// left to right.
#pragma once

#include "kernels/chain.h"

namespace comera::kernels {

struct TtMatrix {
  int d = 0, e = 0;                        // modes of the input and of the output
  std::int64_t modes[max_cores] = {};      // d + e, as stored: with a gauge the last one is N - r_d
  std::int64_t ranks[max_cores + 1] = {};  // d + e + 1, first and last are 1
  const void* cores[max_cores] = {};       // d + e
  const void* diagonals[max_cores] = {};   // d + e - 1, each may be null: all ones, not masked
  const std::int32_t* order = nullptr;     // [M], a permutation; optional
  const std::int32_t* gauge = nullptr;     // [r_d], distinct columns; optional
  double threshold = 0;
  void* left = nullptr;  // A [M, r_d] at ld_left; columns r_d .. padded_rank(r_d) - 1 are set to zero
  std::int64_t ld_left = 0;
  void* right = nullptr;  // B [padded_rank(r_d), N]; rows beyond r_d are set to zero
  // backward
  const void* d_left = nullptr;       // [M, r_d] at ld_left
  const void* d_right = nullptr;      // [r_d, N]
  void* d_cores[max_cores] = {};      // accumulated
  void* d_diagonals[max_cores] = {};  // accumulated; null if the diagonal is null
};

struct TtMerge {
  const TtMatrix* matrices = nullptr;  // host memory
  int count = 0;
};
struct TtMergeBackward {
  const TtMatrix* matrices = nullptr;
  int count = 0;
};

constexpr std::int64_t rows_of(const TtMatrix& t) { return product_of(t.modes, 0, t.d); }  // M
// Without the columns of the gauge.
constexpr std::int64_t stored_columns_of(const TtMatrix& t) { return product_of(t.modes, t.d, t.d + t.e); }
// N
constexpr std::int64_t columns_of(const TtMatrix& t) {
  return stored_columns_of(t) + (t.gauge != nullptr ? t.ranks[t.d] : 0);
}

// 2 [ sum_{i=2..d} m_1..m_i r_{i-1} r_i + sum_{i=2..e} R n_1..n_i r_{d+i-1} r_{d+i} ]
constexpr double merge_flops(const TtMatrix& t) {
  double sum = 0;
  for (int i = 2; i <= t.d; ++i) sum += 2.0 * product_of(t.modes, 0, i) * t.ranks[i - 1] * t.ranks[i];
  for (int i = 2; i <= t.e; ++i)
    sum += 2.0 * t.ranks[t.d] * product_of(t.modes, t.d, t.d + i) * t.ranks[t.d + i - 1] * t.ranks[t.d + i];
  return sum;
}
constexpr double flops(const TtMerge& a) {
  double sum = 0;
  for (int i = 0; i < a.count; ++i) sum += merge_flops(a.matrices[i]);
  return sum;
}
// The partial products are recomputed, then the backward of each one costs twice its forward.
constexpr double flops(const TtMergeBackward& a) {
  double sum = 0;
  for (int i = 0; i < a.count; ++i) sum += 3 * merge_flops(a.matrices[i]);
  return sum;
}

}  // namespace comera::kernels
