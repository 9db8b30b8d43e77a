// Reference of kernels/grids.h.
#pragma once

#include "kernels/grids.h"
#include "kernels/reference/embedding.h"

namespace comera::kernels::reference {

template <class T>
void compute(const GridLinear& a) {
  for (std::int64_t k = 0; k < a.tokens; ++k)
    for (std::int64_t n = 0; n < a.weight.lines; ++n) {
      T& y = out<T>(a.y)[k * a.ldy + n];
      T sum = a.accumulate ? y : T(0);
      if (a.bias) sum += in<T>(a.bias)[n];
      for (std::int64_t m = 0; m < a.weight.numbers; ++m)
        sum += in<T>(a.x)[k * a.ldx + m] * T(number_of(a.weight, n, m));
      y = activate(a.activation, sum);
    }
}

template <class T>
void compute(const GridEmbedding& a) {
  const std::int64_t columns = a.table.numbers;
  start_rows(out<T>(a.y), a.bags.bags * columns, a.accumulate);
  for_each_id(a.bags, [&](std::int64_t b, std::int64_t id, double) {
    for (std::int64_t j = 0; j < columns; ++j) out<T>(a.y)[b * columns + j] += T(number_of(a.table, id, j));
  });
}

}  // namespace comera::kernels::reference
