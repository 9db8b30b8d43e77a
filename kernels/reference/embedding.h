// Reference of kernels/embedding.h.
#pragma once

#include "kernels/embedding.h"
#include "kernels/reference/chain.h"

namespace comera::kernels::reference {

// Calls visit(bag, id) for every id, in the order of position.
template <class Visit>
void for_each_id(const Bags& bags, Visit visit) {
  for (std::int64_t b = 0; b < bags.bags; ++b) {
    const std::int64_t first = bags.offsets ? bags.offsets[b] : b, last = bags.offsets ? bags.offsets[b + 1] : b + 1;
    for (std::int64_t i = first; i < last; ++i) visit(b, static_cast<std::int64_t>(bags.id[i]));
  }
}

template <class T>
void start_rows(T* y, std::int64_t count, bool accumulate) {
  for (std::int64_t i = 0; i < count && !accumulate; ++i) y[i] = T(0);
}

template <class T>
void compute(const EmbeddingForward& a) {
  start_rows(out<T>(a.y), a.bags.bags * a.columns, a.accumulate);
  for_each_id(a.bags, [&](std::int64_t b, std::int64_t id) {
    for (std::int64_t j = 0; j < a.columns; ++j) out<T>(a.y)[b * a.columns + j] += in<T>(a.table)[id * a.columns + j];
  });
}

template <class T>
void compute(const EmbeddingBackward& a) {
  for_each_id(a.bags, [&](std::int64_t b, std::int64_t id) {
    for (std::int64_t j = 0; j < a.columns; ++j) out<T>(a.d_table)[id * a.columns + j] += in<T>(a.dy)[b * a.columns + j];
  });
}

template <class T>
Chain<T> chain_of(const TtmTable& t) {
  Chain<T> chain;
  for (int k = 0; k < t.d; ++k) chain.sizes[k] = t.row_modes[k] * t.column_modes[k];
  for (int k = 0; k <= t.d; ++k) chain.ranks[k] = t.ranks[k];
  chain.cores = t.cores, chain.diagonals = t.diagonals, chain.count = t.d, chain.threshold = t.threshold;
  return chain;
}

// Where (row, column) of cores first .. last - 1 stands in the chain's order (m_first, n_first, m_{first+1}, n_{first+1}, ...).
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
      for (std::int64_t r = 0; r < rank; ++r) visit((p * columns + j) * rank + r, interleaved(t, 0, t.cut, p, j) * rank + r);
}

// The same for A2 and the product of cores cut .. d - 1.
template <class Visit>
void for_each_right(const TtmTable& t, Visit visit) {
  const std::int64_t rows = right_rows(t), columns = right_columns(t), rank = t.ranks[t.cut];
  for (std::int64_t q = 0; q < rows; ++q)
    for (std::int64_t r = 0; r < rank; ++r)
      for (std::int64_t j = 0; j < columns; ++j) visit((q * rank + r) * columns + j, r * rows * columns + interleaved(t, t.cut, t.d, q, j));
}

template <class T>
void compute(const TtmMerge& a) {
  const TtmTable& t = *a.table;
  const Chain<T> chain = chain_of<T>(t);
  const std::vector<T> left = chain.product(0, t.cut), right = chain.product(t.cut, t.d);
  for_each_left(t, [&](std::int64_t half, std::int64_t product) { out<T>(t.left)[half] = left[product]; });
  for_each_right(t, [&](std::int64_t half, std::int64_t product) { out<T>(t.right)[half] = right[product]; });
}

template <class T>
void compute(const TtmMergeBackward& a) {
  const TtmTable& t = *a.table;
  std::vector<T> d_left(left_elements(t), T(0)), d_right(right_elements(t), T(0));
  for_each_left(t, [&](std::int64_t half, std::int64_t product) { d_left[product] = in<T>(t.d_left)[half]; });
  for_each_right(t, [&](std::int64_t half, std::int64_t product) { d_right[product] = in<T>(t.d_right)[half]; });
  const Chain<T> chain = chain_of<T>(t);
  chain.backward(0, t.cut, d_left, t.d_cores, t.d_diagonals);
  chain.backward(t.cut, t.d, d_right, t.d_cores, t.d_diagonals);
}

// Calls visit(index in A1, index in A2, column) for every product that row `id` sums.
template <class Visit>
void for_each_term(const TtmTable& t, std::int64_t id, Visit visit) {
  const std::int64_t p = id / right_rows(t), q = id % right_rows(t), rank = t.ranks[t.cut];
  for (std::int64_t i = 0; i < left_columns(t); ++i)
    for (std::int64_t j = 0; j < right_columns(t); ++j)
      for (std::int64_t r = 0; r < rank; ++r)
        visit((p * left_columns(t) + i) * rank + r, (q * rank + r) * right_columns(t) + j, i * right_columns(t) + j);
}

template <class T>
void compute(const TtmForward& a) {
  const TtmTable& t = *a.table;
  const std::int64_t columns = left_columns(t) * right_columns(t);
  start_rows(out<T>(a.y), a.bags.bags * columns, a.accumulate);
  for_each_id(a.bags, [&](std::int64_t b, std::int64_t id) {
    for_each_term(t, id, [&](std::int64_t left, std::int64_t right, std::int64_t column) {
      out<T>(a.y)[b * columns + column] += in<T>(t.left)[left] * in<T>(t.right)[right];
    });
  });
}

template <class T>
void compute(const TtmBackward& a) {
  const TtmTable& t = *a.table;
  const std::int64_t columns = left_columns(t) * right_columns(t);
  for_each_id(a.bags, [&](std::int64_t b, std::int64_t id) {
    for_each_term(t, id, [&](std::int64_t left, std::int64_t right, std::int64_t column) {
      const T& dy = in<T>(a.dy)[b * columns + column];
      out<T>(a.d_left)[left] += dy * in<T>(t.right)[right];
      out<T>(a.d_right)[right] += dy * in<T>(t.left)[left];
    });
  });
}

}  // namespace comera::kernels::reference
