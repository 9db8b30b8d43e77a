// Reference of kernels/sketch.h. Entries are computed in float for every type, so that all types have the same P.
#pragma once

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

}  // namespace comera::kernels::reference
