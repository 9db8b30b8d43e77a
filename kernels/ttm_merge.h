// Merges the cores of a TTM table into the left and right factor that look-ups read, and maps gradients back.
#pragma once

#include "kernels/chain.h"

namespace comera::kernels {

// TTM of any order: E [V x N], rows V <= m_1..m_d, columns N = n_1..n_d, cores F_k [r_{k-1}, m_k, n_k, r_k]. The
// diagonals on the d-1 inner bonds are masked as in tt_cores.h. The chain is cut into two factors after core `cut` (1
// <= cut < d; if d = 1, cut = 1 and the right factor is 1):
//   left  A1 [m_1..m_cut, n_1..n_cut, r_cut]           (rows p = id / right_rows)
//   right A2 [m_{cut+1}..m_d, r_cut, n_{cut+1}..n_d]   (rows q = id % right_rows)
// The row q is A2's first index, so the factor of one row is contiguous. Row id: E[id] = A1[p] (n_left x r) * A2[q] (r
// x n_right), flattened to N. Source: CoMERA, section 4.1.
struct TtmTable {
  int d = 0, cut = 0;
  std::int64_t row_modes[max_cores] = {}, column_modes[max_cores] = {};
  std::int64_t ranks[max_cores + 1] = {};
  const void* cores[max_cores] = {};
  const void* diagonals[max_cores] = {};  // d - 1, each may be null
  double threshold = 0;
  void* left = nullptr;
  void* right = nullptr;
  // backward
  const void* d_left = nullptr;
  const void* d_right = nullptr;
  void* d_cores[max_cores] = {};
  void* d_diagonals[max_cores] = {};
};

constexpr std::int64_t left_rows(const TtmTable& t) { return product_of(t.row_modes, 0, t.cut); }
constexpr std::int64_t right_rows(const TtmTable& t) { return product_of(t.row_modes, t.cut, t.d); }
constexpr std::int64_t left_columns(const TtmTable& t) { return product_of(t.column_modes, 0, t.cut); }
constexpr std::int64_t right_columns(const TtmTable& t) { return product_of(t.column_modes, t.cut, t.d); }
constexpr std::int64_t left_elements(const TtmTable& t) { return left_rows(t) * left_columns(t) * t.ranks[t.cut]; }
constexpr std::int64_t right_elements(const TtmTable& t) { return right_rows(t) * right_columns(t) * t.ranks[t.cut]; }

// Merges the cores into left and right.
struct TtmMerge {
  const TtmTable* table = nullptr;
};

// Computes d_cores and d_diagonals (accumulated) from d_left and d_right.
struct TtmMergeBackward {
  const TtmTable* table = nullptr;
};

constexpr double merge_flops(const TtmTable& t) {
  double sum = 0;
  for (int i = 2; i <= t.cut; ++i)
    sum += 2.0 * product_of(t.row_modes, 0, i) * product_of(t.column_modes, 0, i) * t.ranks[i - 1] * t.ranks[i];
  for (int i = t.cut + 2; i <= t.d; ++i)
    sum += 2.0 * t.ranks[t.cut] * product_of(t.row_modes, t.cut, i) * product_of(t.column_modes, t.cut, i) *
           t.ranks[i - 1] * t.ranks[i];
  return sum;
}
constexpr double flops(const TtmMerge& a) { return merge_flops(*a.table); }
constexpr double flops(const TtmMergeBackward& a) { return 3 * merge_flops(*a.table); }

}  // namespace comera::kernels
