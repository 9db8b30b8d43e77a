// Reference of kernels/ttm_embedding.h.
#pragma once

#include "kernels/reference/embedding.h"
#include "kernels/ttm_embedding.h"

namespace comera::kernels::reference {

// Calls visit(index in A1, index in A2, column) for every term of the sums in row `id`.
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
  for_each_id(a.bags, [&](std::int64_t b, std::int64_t id, double weight) {
    for_each_term(t, id, [&](std::int64_t left, std::int64_t right, std::int64_t column) {
      out<T>(a.y)[b * columns + column] += T(weight) * (in<T>(t.left)[left] * in<T>(t.right)[right]);
    });
  });
}

template <class T>
void compute(const TtmBackward& a) {
  const TtmTable& t = *a.table;
  const std::int64_t columns = left_columns(t) * right_columns(t);
  for_each_id(a.bags, [&](std::int64_t b, std::int64_t id, double weight) {
    for_each_term(t, id, [&](std::int64_t left, std::int64_t right, std::int64_t column) {
      const T dy = T(weight) * in<T>(a.dy)[b * columns + column];
      out<T>(a.d_left)[left] += dy * in<T>(t.right)[right];
      out<T>(a.d_right)[right] += dy * in<T>(t.left)[left];
    });
  });
}

}  // namespace comera::kernels::reference
