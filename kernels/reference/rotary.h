// Reference of kernels/rotary.h.
#pragma once

#include <algorithm>

#include "kernels/reference/scalar.h"
#include "kernels/rotary.h"

namespace comera::kernels::reference {

template <class T>
void compute(const RotaryTable& a) {
  const std::int64_t half = a.head_size / 2;
  for (std::int64_t p = 0; p < a.positions; ++p)
    for (std::int64_t i = 0; i < half; ++i) {
      const RotaryAngles& by = a.angles;
      const auto feature = static_cast<double>(i);
      const double base = std::pow(by.theta, -2.0 * feature / static_cast<double>(a.head_size));
      const double share = std::clamp(by.kept + by.kept_by_feature * feature + by.kept_by_base * base, 0.0, 1.0);
      const double angle = static_cast<double>(p) * (base * (share + (1 - share) / by.factor));
      out<T>(a.cosines)[p * half + i] = T(by.amplitude * std::cos(angle));
      out<T>(a.sines)[p * half + i] = T(by.amplitude * std::sin(angle));
    }
}

template <class T>
void compute(const Rotary& a) {
  const std::int64_t half = a.head_size / 2;
  for (std::int64_t row = 0; row < a.tokens * a.heads; ++row)
    for (std::int64_t i = 0; i < half; ++i) {
      const std::int64_t at = a.positions[row / a.heads] * half + i, first = a.head_at(row) + i, second = first + half;
      const T cosine = in<T>(a.cosines)[at], sine = a.inverse ? -in<T>(a.sines)[at] : in<T>(a.sines)[at];
      const T x = in<T>(a.x)[first], other = in<T>(a.x)[second];
      out<T>(a.y)[first] = x * cosine - other * sine;
      out<T>(a.y)[second] = other * cosine + x * sine;
    }
}

}  // namespace comera::kernels::reference
