// Reference of kernels/late_sums.h.
#pragma once

#include "kernels/late_sums.h"
#include "kernels/reference/scalar.h"

namespace comera::kernels::reference {

template <class T>
void compute(const LateSums& a) {
  for (int i = 0; i < a.count; ++i) {
    const LateSum& s = a.sum[i];
    for (std::int64_t at = 0; at < s.count; ++at) {
      T sum = T(0);
      for (int group = 0; group < s.groups; ++group) sum += in<T>(s.parts)[group * s.ld + at];
      out<T>(s.to)[at] += sum;
    }
  }
}

}  // namespace comera::kernels::reference
