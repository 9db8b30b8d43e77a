// Reference of kernels/ttm_merge.h.
#pragma once

#include "kernels/reference/chain.h"
#include "kernels/ttm_merge.h"

namespace comera::kernels::reference {

template <class T>
MaskedChain<T> chain_of(const TtmTable& t) {
  MaskedChain<T> chain;
  for (int k = 0; k < t.d; ++k) chain.sizes[k] = t.row_modes[k] * t.column_modes[k];
  for (int k = 0; k <= t.d; ++k) chain.ranks[k] = t.ranks[k];
  chain.cores = t.cores, chain.diagonals = t.diagonals, chain.count = t.d, chain.threshold = t.threshold;
  return chain;
}

// Index of (row, column) of cores first .. last - 1 in the order of the chain (m_first, n_first, m_{first+1},
// n_{first+1}, ...).
inline std::int64_t interleaved(const TtmTable& t, int first, int last, std::int64_t row, std::int64_t column) {
  std::int64_t index = 0, stride = 1;
  for (int k = last - 1; k >= first; --k) {
    index += stride * (column % t.column_modes[k] + t.column_modes[k] * (row % t.row_modes[k]));
    stride *= t.row_modes[k] * t.column_modes[k];
    row /= t.row_modes[k], column /= t.column_modes[k];
  }
  return index;
}

// Calls visit(index in A1, index in the chain's product of cores 0 .. cut - 1).
template <class Visit>
void for_each_left(const TtmTable& t, Visit visit) {
  const std::int64_t columns = left_columns(t), rank = t.ranks[t.cut];
  for (std::int64_t p = 0; p < left_rows(t); ++p)
    for (std::int64_t j = 0; j < columns; ++j)
      for (std::int64_t r = 0; r < rank; ++r)
        visit((p * columns + j) * rank + r, interleaved(t, 0, t.cut, p, j) * rank + r);
}

// The same for A2 and the product of cores cut .. d - 1.
template <class Visit>
void for_each_right(const TtmTable& t, Visit visit) {
  const std::int64_t rows = right_rows(t), columns = right_columns(t), rank = t.ranks[t.cut];
  for (std::int64_t q = 0; q < rows; ++q)
    for (std::int64_t r = 0; r < rank; ++r)
      for (std::int64_t j = 0; j < columns; ++j)
        visit((q * rank + r) * columns + j, r * rows * columns + interleaved(t, t.cut, t.d, q, j));
}

template <class T>
void compute(const TtmMerge& a) {
  const TtmTable& t = *a.table;
  const MaskedChain<T> chain = chain_of<T>(t);
  const std::vector<T> left = chain.product(0, t.cut), right = chain.product(t.cut, t.d);
  for_each_left(t, [&](std::int64_t at, std::int64_t product) { out<T>(t.left)[at] = left[product]; });
  for_each_right(t, [&](std::int64_t at, std::int64_t product) { out<T>(t.right)[at] = right[product]; });
}

template <class T>
void compute(const TtmMergeBackward& a) {
  const TtmTable& t = *a.table;
  std::vector<T> d_left(left_elements(t), T(0)), d_right(right_elements(t), T(0));
  for_each_left(t, [&](std::int64_t at, std::int64_t product) { d_left[product] = in<T>(t.d_left)[at]; });
  for_each_right(t, [&](std::int64_t at, std::int64_t product) { d_right[product] = in<T>(t.d_right)[at]; });
  const MaskedChain<T> chain = chain_of<T>(t);
  chain.backward(0, t.cut, d_left, t.d_cores, t.d_diagonals);
  chain.backward(t.cut, t.d, d_right, t.d_cores, t.d_diagonals);
}

}  // namespace comera::kernels::reference
