// Reference of kernels/embedding.h.
#pragma once

#include "kernels/embedding.h"
#include "kernels/reference/scalar.h"

namespace comera::kernels::reference {

// Calls visit(bag, id, weight) for every id, in order of position.
template <class Visit>
void for_each_id(const Bags& bags, Visit visit) {
  for (std::int64_t b = 0; b < bags.bags; ++b) {
    const std::int64_t first = bags.offsets ? bags.offsets[b] : b, last = bags.offsets ? bags.offsets[b + 1] : b + 1;
    for (std::int64_t i = first; i < last; ++i)
      visit(b, static_cast<std::int64_t>(bags.id[i]), bags.weights ? static_cast<double>(bags.weights[i]) : 1.0);
  }
}

template <class T>
void start_rows(T* y, std::int64_t count, bool accumulate) {
  for (std::int64_t i = 0; i < count && !accumulate; ++i) y[i] = T(0);
}

template <class T>
void compute(const EmbeddingForward& a) {
  start_rows(out<T>(a.y), a.bags.bags * a.columns, a.accumulate);
  for_each_id(a.bags, [&](std::int64_t b, std::int64_t id, double weight) {
    for (std::int64_t j = 0; j < a.columns; ++j)
      out<T>(a.y)[b * a.columns + j] += T(weight) * in<T>(a.table)[id * a.columns + j];
  });
}

template <class T>
void compute(const EmbeddingBackward& a) {
  for_each_id(a.bags, [&](std::int64_t b, std::int64_t id, double weight) {
    for (std::int64_t j = 0; j < a.columns; ++j)
      out<T>(a.d_table)[id * a.columns + j] += T(weight) * in<T>(a.dy)[b * a.columns + j];
  });
}

}  // namespace comera::kernels::reference
