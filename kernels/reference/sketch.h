// Reference of kernels/sketch.h. Entries are computed in float for every type, so that all types have the same P.
#pragma once

#include <algorithm>

#include "kernels/reference/scalar.h"
#include "kernels/sketch.h"

namespace comera::kernels::reference {

template <class T>
void compute(const DrawSketch& a) {
  const SketchRule rule(a);
  const std::int64_t n = a.sketch.inputs, r = a.sketch.rank;
  for (std::int64_t row = 0; row < n; ++row)
    for (std::int64_t column = 0; column < r; ++column) {
      float four[4];
      rule.four(row, column / 4, four);
      const float entry = a.sketch.kind == SketchKind::orthonormal
                              ? rule.entry(row, rule.frequency(column), rule.sign(row))
                              : four[column % 4];
      out<T>(a.p)[a.transposed ? column * n + row : row * r + column] = T(static_cast<double>(entry));
    }
}

template <class T>
void compute(const SketchColumns& a) {
  const SketchRule rule(a.sketch, 1, *a.scalars);
  const std::int64_t n = a.sketch.inputs, r = a.sketch.rank;
  std::fill_n(out<T>(a.z), a.tokens * r, T(0));
  for (std::int64_t k = 0; k < a.tokens; ++k)
    for (std::int64_t row = 0; row < n; ++row)
      out<T>(a.z)[k * r + rule.column(row)] += T(static_cast<double>(rule.sign(row))) * in<T>(a.x)[k * n + row];
}

template <class T>
void compute(const SketchRows& a) {
  const SketchRule rule(a.sketch, a.scale, *a.scalars);
  for (std::int64_t row = 0; row < a.sketch.inputs; ++row)
    for (std::int64_t j = 0; j < a.out; ++j)
      out<T>(a.result)[row * a.out + j] +=
          T(static_cast<double>(rule.sign(row))) * in<T>(a.t)[rule.column(row) * a.out + j];
}

}  // namespace comera::kernels::reference
