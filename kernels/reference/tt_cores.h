// Reference of kernels/tt_cores.h.
#pragma once

#include "kernels/reference/chain.h"
#include "kernels/tt_cores.h"

namespace comera::kernels::reference {

template <class T>
MaskedChain<T> chain_of(const TtMatrix& t) {
  MaskedChain<T> chain;
  for (int k = 0; k < t.d + t.e; ++k) chain.sizes[k] = t.modes[k];
  for (int k = 0; k <= t.d + t.e; ++k) chain.ranks[k] = t.ranks[k];
  chain.cores = t.cores, chain.diagonals = t.diagonals, chain.count = t.d + t.e, chain.threshold = t.threshold;
  return chain;
}

// For each column of B: the index of its unit vector, or -1 if the column is stored.
inline std::vector<std::int64_t> unit_columns(const TtMatrix& t) {
  std::vector<std::int64_t> unit(columns_of(t), -1);
  for (std::int64_t r = 0; t.gauge && r < t.ranks[t.d]; ++r) unit[t.gauge[r]] = r;
  return unit;
}

template <class T>
void merge(const TtMatrix& t) {
  const MaskedChain<T> chain = chain_of<T>(t);
  const std::int64_t rows = rows_of(t), columns = columns_of(t), stored = stored_columns_of(t), rank = t.ranks[t.d];
  const std::vector<T> left = chain.product(0, t.d), right = chain.product(t.d, t.d + t.e);
  for (std::int64_t p = 0; p < rows; ++p)
    for (std::int64_t j = 0; j < padded_rank(rank); ++j)
      out<T>(t.left)[(t.order ? t.order[p] : p) * t.ld_left + j] = j < rank ? left[p * rank + j] : T(0);
  const std::vector<std::int64_t> unit = unit_columns(t);
  for (std::int64_t i = 0; i < padded_rank(rank); ++i)
    for (std::int64_t j = 0, next = 0; j < columns; ++j) {
      T& entry = out<T>(t.right)[i * columns + j];
      entry = i >= rank ? T(0) : unit[j] < 0 ? right[i * stored + next] : T(unit[j] == i ? 1 : 0);
      next += unit[j] < 0;
    }
}

template <class T>
void merge_backward(const TtMatrix& t) {
  const MaskedChain<T> chain = chain_of<T>(t);
  const std::int64_t rows = rows_of(t), columns = columns_of(t), stored = stored_columns_of(t), rank = t.ranks[t.d];
  std::vector<T> d_left(rows * rank, T(0)), d_right(rank * stored, T(0));
  for (std::int64_t p = 0; p < rows; ++p)
    for (std::int64_t j = 0; j < rank; ++j)
      d_left[p * rank + j] = in<T>(t.d_left)[(t.order ? t.order[p] : p) * t.ld_left + j];
  const std::vector<std::int64_t> unit = unit_columns(t);
  for (std::int64_t i = 0; i < rank; ++i)
    for (std::int64_t j = 0, next = 0; j < columns; ++j)
      if (unit[j] < 0) d_right[i * stored + next++] = in<T>(t.d_right)[i * columns + j];
  chain.backward(0, t.d, d_left, t.d_cores, t.d_diagonals);
  chain.backward(t.d, t.d + t.e, d_right, t.d_cores, t.d_diagonals);
}

template <class T>
void compute(const TtMerge& a) {
  for (int i = 0; i < a.count; ++i) merge<T>(a.matrices[i]);
}

template <class T>
void compute(const TtMergeBackward& a) {
  for (int i = 0; i < a.count; ++i) merge_backward<T>(a.matrices[i]);
}

}  // namespace comera::kernels::reference
