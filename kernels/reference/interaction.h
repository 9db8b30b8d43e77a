// Reference of kernels/interaction.h.
#pragma once

#include "kernels/interaction.h"
#include "kernels/reference/scalar.h"

namespace comera::kernels::reference {

template <class T>
void compute(const InteractionForward& a) {
  const std::int64_t n = a.columns, width = interaction_columns(a.vectors, n);
  for (std::int64_t b = 0; b < a.rows; ++b) {
    T* const y = out<T>(a.y) + b * width;
    for (std::int64_t k = 0; k < n; ++k) y[k] = in<T>(a.x[0])[b * n + k];
    for (std::int64_t i = 1; i < a.vectors; ++i)
      for (std::int64_t j = 0; j < i; ++j) {
        T sum(0);
        for (std::int64_t k = 0; k < n; ++k) sum += in<T>(a.x[i])[b * n + k] * in<T>(a.x[j])[b * n + k];
        y[n + pair_index(i, j)] = sum;
      }
  }
}

template <class T>
void compute(const InteractionBackward& a) {
  const std::int64_t n = a.columns, width = interaction_columns(a.vectors, n);
  for (std::int64_t b = 0; b < a.rows; ++b) {
    const T* const dy = in<T>(a.dy) + b * width;
    for (std::int64_t i = 0; i < a.vectors; ++i)
      for (std::int64_t k = 0; k < n; ++k) {
        T sum = i == 0 ? dy[k] : T(0);
        for (std::int64_t j = 0; j < a.vectors; ++j)
          if (j != i) sum += dy[n + (j < i ? pair_index(i, j) : pair_index(j, i))] * in<T>(a.x[j])[b * n + k];
        out<T>(a.dx[i])[b * n + k] = sum;
      }
  }
}

}  // namespace comera::kernels::reference
