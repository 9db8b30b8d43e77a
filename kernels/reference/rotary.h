// Reference of kernels/rotary.h.
#pragma once

#include "kernels/reference/scalar.h"
#include "kernels/rotary.h"

namespace comera::kernels::reference {

template <class T>
void compute(const RotaryTable& a) {
  const std::int64_t half = a.head_size / 2;
  for (std::int64_t p = 0; p < a.positions; ++p)
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle =
          static_cast<double>(p) * std::pow(a.theta, -2.0 * static_cast<double>(i) / static_cast<double>(a.head_size));
      out<T>(a.cosines)[p * half + i] = T(std::cos(angle));
      out<T>(a.sines)[p * half + i] = T(std::sin(angle));
    }
}

template <class T>
void compute(const Rotary& a) {
  const std::int64_t half = a.head_size / 2;
  for (std::int64_t row = 0; row < a.tokens * a.heads; ++row)
    for (std::int64_t i = 0; i < half; ++i) {
      const std::int64_t at = a.positions[row / a.heads] * half + i, first = row * a.head_size + i,
                         second = first + half;
      const T cosine = in<T>(a.cosines)[at], sine = a.inverse ? -in<T>(a.sines)[at] : in<T>(a.sines)[at];
      const T x = in<T>(a.x)[first], other = in<T>(a.x)[second];
      out<T>(a.y)[first] = x * cosine - other * sine;
      out<T>(a.y)[second] = other * cosine + x * sine;
    }
}

}  // namespace comera::kernels::reference
