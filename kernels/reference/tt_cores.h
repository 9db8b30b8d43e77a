// Reference of kernels/tt_cores.h.
#pragma once

#include "kernels/reference/chain.h"
#include "kernels/tt_linear.h"

namespace comera::kernels::reference {

template <class T>
Chain<T> chain_of(const TtMatrix& t) {
  Chain<T> chain;
  for (int k = 0; k < 2 * t.d; ++k) chain.sizes[k] = t.modes[k];
  for (int k = 0; k <= 2 * t.d; ++k) chain.ranks[k] = t.ranks[k];
  chain.cores = t.cores, chain.diagonals = t.diagonals, chain.count = 2 * t.d, chain.threshold = t.threshold;
  return chain;
}

template <class T>
void merge(const TtMatrix& t) {
  const Chain<T> chain = chain_of<T>(t);
  const std::int64_t rows = product_of(t.modes, 0, t.d), columns = product_of(t.modes, t.d, 2 * t.d), rank = t.ranks[t.d];
  const std::vector<T> left = chain.product(0, t.d), right = chain.product(t.d, 2 * t.d);
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < padded_rank(rank); ++j) out<T>(t.left)[i * t.ld_left + j] = j < rank ? left[i * rank + j] : T(0);
  for (std::int64_t i = 0; i < padded_rank(rank) * columns; ++i) out<T>(t.right)[i] = i < rank * columns ? right[i] : T(0);
}

template <class T>
void merge_backward(const TtMatrix& t) {
  const Chain<T> chain = chain_of<T>(t);
  const std::int64_t rows = product_of(t.modes, 0, t.d), columns = product_of(t.modes, t.d, 2 * t.d), rank = t.ranks[t.d];
  std::vector<T> d_left(rows * rank, T(0));
  for (std::int64_t i = 0; i < rows * rank; ++i) d_left[i] = in<T>(t.d_left)[i / rank * t.ld_left + i % rank];
  const std::vector<T> d_right(in<T>(t.d_right), in<T>(t.d_right) + rank * columns);
  chain.backward(0, t.d, d_left, t.d_cores, t.d_diagonals);
  chain.backward(t.d, 2 * t.d, d_right, t.d_cores, t.d_diagonals);
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
