// Reference of kernels/slope_codes.h.
#pragma once

#include <algorithm>

#include "kernels/reference/scalar.h"
#include "kernels/slope_codes.h"

namespace comera::kernels::reference {

template <class T>
void compute(const SlopeEncode& a) {
  for (std::int64_t row = 0; row < a.rows; ++row) {
    std::uint8_t* codes = a.codes + row * slope_row_bytes(a.columns);
    std::fill(codes, codes + slope_row_bytes(a.columns), std::uint8_t{0});
    for (std::int64_t j = 0; j < a.columns; ++j) {
      const auto x = real_part(in<T>(a.x)[row * a.columns + j]);
      unsigned code = 0;
      for (const float cut : a.table.cut) code += x > cut ? 1 : 0;
      codes[j / 4] = static_cast<std::uint8_t>(codes[j / 4] | code << (j % 4 * 2));
    }
  }
}

template <class T>
void compute(const SlopeApply& a) {
  for (std::int64_t row = 0; row < a.rows; ++row)
    for (std::int64_t j = 0; j < a.columns; ++j) {
      const int code = a.codes[row * slope_row_bytes(a.columns) + j / 4] >> (j % 4 * 2) & 3;
      out<T>(a.dx)[row * a.columns + j] =
          in<T>(a.dy)[row * a.columns + j] * T(static_cast<double>(a.table.slope[code]));
    }
}

}  // namespace comera::kernels::reference
