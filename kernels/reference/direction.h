// Reference of kernels/direction.h.
#pragma once

#include "kernels/direction.h"
#include "kernels/reference/scalar.h"

namespace comera::kernels::reference {

template <class T>
void compute(const DirectionAverage& a) {
  using std::sqrt;
  using W = typename Wide<T>::type;
  T* v = out<T>(a.v);
  for (std::int64_t j = 0; j < a.size; ++j)
    if (real_part(v[j]) != 0) return;
  std::vector<W> mean(a.size, W(0));
  for (std::int64_t row = 0; row < a.rows; ++row)
    for (std::int64_t j = 0; j < a.size; ++j) mean[j] += W(in<T>(a.x)[row * a.size + j]);
  W squares(0);
  for (W& m : mean) {
    m = m / W(static_cast<double>(a.rows));
    squares += m * m;
  }
  if (!std::isfinite(real_part(squares)) || !(real_part(squares) > 0)) return;
  for (std::int64_t j = 0; j < a.size; ++j) v[j] = T(mean[j] / sqrt(squares));
}

template <class T>
void compute(const DirectionLift& a) {
  for (std::int64_t i = 0; i < a.groups * a.size; ++i)
    for (std::int64_t n = 0; n < a.out; ++n)
      out<T>(a.result)[i * a.ld_result + n] += T(a.scale) * in<T>(a.v)[i % a.size] * in<T>(a.t)[i / a.size * a.out + n];
}

}  // namespace comera::kernels::reference
