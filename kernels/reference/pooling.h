// Reference of kernels/pooling.h.
#pragma once

#include "kernels/pooling.h"
#include "kernels/reference/scalar.h"

namespace comera::kernels::reference {

template <class T>
T dot_of(const T* x, const T* y, std::int64_t count) {
  T sum(0);
  for (std::int64_t j = 0; j < count; ++j) sum += x[j] * y[j];
  return sum;
}

template <class T>
void compute(const PoolForward& a) {
  using std::sqrt;
  for (std::int64_t b = 0; b < a.sequences; ++b) {
    const std::int64_t rows = a.pooling == Pooling::mean ? a.lengths[b] : 1;
    T* y = out<T>(a.y) + b * a.columns;
    for (std::int64_t j = 0; j < a.columns; ++j) {
      T sum(0);
      for (std::int64_t t = 0; t < rows; ++t) sum += in<T>(a.x)[(b * a.length + t) * a.columns + j];
      y[j] = sum / T(static_cast<double>(rows));
    }
    if (!a.normalise) continue;
    T norm = sqrt(dot_of(y, y, a.columns));
    if (real_part(norm) < smallest_norm) norm = T(smallest_norm);
    out<T>(a.norm)[b] = norm;
    for (std::int64_t j = 0; j < a.columns; ++j) y[j] = y[j] / norm;
  }
}

template <class T>
void compute(const PoolBackward& a) {
  for (std::int64_t b = 0; b < a.sequences; ++b) {
    const std::int64_t rows = a.pooling == Pooling::mean ? a.lengths[b] : 1;
    const T* dy = in<T>(a.dy) + b * a.columns;
    const T along = a.normalise ? dot_of(in<T>(a.y) + b * a.columns, dy, a.columns) : T(0);
    for (std::int64_t t = 0; t < a.length; ++t)
      for (std::int64_t j = 0; j < a.columns; ++j) {
        T d = dy[j];
        if (a.normalise) d = (d - in<T>(a.y)[b * a.columns + j] * along) / in<T>(a.norm)[b];
        out<T>(a.dx)[(b * a.length + t) * a.columns + j] = t < rows ? d / T(static_cast<double>(rows)) : T(0);
      }
  }
}

}  // namespace comera::kernels::reference
