// Reference of kernels/group_codes.h. Ranges and codes are computed in float for every type, since they are stored.
#pragma once

#include <algorithm>
#include <cmath>

#include "kernels/group_codes.h"
#include "kernels/reference/scalar.h"

namespace comera::kernels::reference {

template <class T>
void compute(const GroupQuantise& a) {
  const GroupCodes& s = a.shape;
  if (!s.has_ranges()) {
    auto* codes = reinterpret_cast<std::uint16_t*>(a.codes);
    for (std::int64_t i = 0; i < s.rows * s.columns; ++i)
      codes[i] = bf16_nearest(static_cast<float>(real_part(in<T>(a.x)[i])));
    return;
  }
  const auto value = [&](std::int64_t row, std::int64_t column) {
    return static_cast<float>(real_part(in<T>(a.x)[row * s.columns + column]));
  };
  const float levels = static_cast<float>((1 << s.bits) - 1);
  for (std::int64_t row = 0; row < s.rows; ++row) {
    std::uint8_t* codes = a.codes + row * s.row_bytes();
    std::fill(codes, codes + s.row_bytes(), std::uint8_t{0});
    for (std::int64_t g = 0; g < s.groups(); ++g) {
      const std::int64_t begin = g * code_group, end = std::min(begin + code_group, s.columns);
      float minimum = value(row, begin), maximum = minimum;
      for (std::int64_t j = begin; j < end; ++j)
        minimum = std::min(minimum, value(row, j)), maximum = std::max(maximum, value(row, j));
      const GroupRange range(minimum, maximum, s.bits);
      a.ranges[2 * (row * s.groups() + g)] = range.least_bits;
      a.ranges[2 * (row * s.groups() + g) + 1] = range.step_bits;
      for (std::int64_t j = begin; j < end; ++j) {
        const float u = a.scalars ? rounding_offset(rounding_block(*a.scalars, a.site, row, j), j) : 0.5f;
        const float code = std::floor(std::fma(value(row, j) - range.least, range.inverse, u));
        const auto bits = static_cast<std::uint8_t>(code < levels ? std::max(code, 0.0f) : levels);  // NaN: levels
        if (s.bits == 8)
          codes[j] = bits;
        else
          codes[j / 2] = static_cast<std::uint8_t>(codes[j / 2] | bits << (j % 2 * 4));
      }
    }
  }
}

template <class T>
void compute(const GroupRestore& a) {
  const GroupCodes& s = a.shape;
  if (!s.has_ranges()) {
    const auto* codes = reinterpret_cast<const std::uint16_t*>(a.codes);
    for (std::int64_t i = 0; i < s.rows * s.columns; ++i) out<T>(a.x)[i] = T(static_cast<double>(bf16_value(codes[i])));
    return;
  }
  for (std::int64_t row = 0; row < s.rows; ++row)
    for (std::int64_t j = 0; j < s.columns; ++j) {
      const std::uint8_t* codes = a.codes + row * s.row_bytes();
      const int code = s.bits == 8 ? codes[j] : codes[j / 2] >> (j % 2 * 4) & 15;
      const std::uint16_t* range = a.ranges + 2 * (row * s.groups() + j / code_group);
      out<T>(a.x)[row * s.columns + j] =
          T(static_cast<double>(std::fma(static_cast<float>(code), bf16_value(range[1]), bf16_value(range[0]))));
    }
}

}  // namespace comera::kernels::reference
