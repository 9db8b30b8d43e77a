// Reference of kernels/exact_rows.h.
#pragma once

#include "kernels/exact_rows.h"
#include "kernels/reference/scalar.h"

namespace comera::kernels::reference {

template <class T>
void compute(const ExactRowsForward& a) {
  for (std::int64_t k = 0; k < a.ids.tokens; ++k)
    for (std::int64_t e = 0; e < a.ids.rows; ++e)
      for (std::int64_t j = 0; j < a.ids.columns && a.ids.row_ids[e] == a.ids.id[k]; ++j)
        out<T>(a.y)[k * a.ids.columns + j] = in<T>(a.rows)[e * a.ids.columns + j];
}

template <class T>
void compute(const ExactRowsBackward& a) {
  const std::int64_t columns = a.ids.columns;
  for (std::int64_t k = 0; k < a.ids.tokens; ++k) {
    for (std::int64_t j = 0; j < columns; ++j) out<T>(a.d_chain)[k * columns + j] = in<T>(a.dy)[k * columns + j];
    for (std::int64_t e = 0; e < a.ids.rows; ++e)
      for (std::int64_t j = 0; j < columns && a.ids.row_ids[e] == a.ids.id[k]; ++j) {
        out<T>(a.d_rows)[e * columns + j] += in<T>(a.dy)[k * columns + j];
        out<T>(a.d_chain)[k * columns + j] = T(0);
      }
  }
}

}  // namespace comera::kernels::reference
