// A scalar that carries its own rounding analysis. The reference, run on this type, derives the tolerance of every
// output.
//
// `value` is computed in double. `magnitude` is the value with every sum replaced by the sum of absolute values and
// every function f replaced by max(|f|, |f'| magnitude), the first-order amplification of its argument's error.
// `roundings` is the longest path of roundings to an input. Then for any order of summation, in arithmetic of unit
// roundoff u, the result differs from the exact one by at most
//   roundings * u * magnitude
// up to terms of u^2 (Higham, Accuracy and Stability of Numerical Algorithms, 2002, sections 3.1 and 3.3).
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

namespace comera::kernels::test {

// Assumption: exp, log, tanh and erf of an f32 backend are accurate to 4 units in the last place, 8 roundings.
constexpr double function_roundings = 8;

struct Tracked {
  double value = 0, magnitude = 0, roundings = 0;

  Tracked() = default;
  // A constant. It has one rounding if f32 cannot represent it.
  explicit Tracked(double x)
      : value(x), magnitude(std::abs(x)), roundings(static_cast<double>(static_cast<float>(x)) == x ? 0 : 1) {}
  Tracked(double value, double magnitude, double roundings)
      : value(value), magnitude(magnitude), roundings(roundings) {}

  static Tracked unwritten() { return {std::numeric_limits<double>::quiet_NaN(), 0, -1}; }
  bool is_unwritten() const { return roundings < 0; }
  bool exactly(double x) const { return value == x && roundings == 0; }
};

// Counts that come from an unwritten value are kept at 0 or more, so that only untouched elements look unwritten.
inline double longer(const Tracked& a, const Tracked& b) { return std::max({a.roundings, b.roundings, 0.0}); }

inline Tracked operator-(const Tracked& a) { return {-a.value, a.magnitude, a.roundings}; }
inline Tracked operator+(const Tracked& a, const Tracked& b) {
  if (a.exactly(0)) return b;
  if (b.exactly(0)) return a;
  return {a.value + b.value, a.magnitude + b.magnitude, longer(a, b) + 1};
}
inline Tracked operator-(const Tracked& a, const Tracked& b) { return a + -b; }
inline Tracked operator*(const Tracked& a, const Tracked& b) {
  if (a.exactly(1) || b.exactly(0)) return b;
  if (b.exactly(1) || a.exactly(0)) return a;
  return {a.value * b.value, a.magnitude * b.magnitude, std::max(a.roundings, 0.0) + std::max(b.roundings, 0.0) + 1};
}
inline Tracked operator/(const Tracked& a, const Tracked& b) {
  const double magnitude = a.magnitude / std::abs(b.value) * (b.magnitude / std::abs(b.value));
  return {a.value / b.value, magnitude, std::max(a.roundings, 0.0) + std::max(b.roundings, 0.0) + 1};
}
inline Tracked& operator+=(Tracked& a, const Tracked& b) { return a = a + b; }
inline Tracked& operator-=(Tracked& a, const Tracked& b) { return a = a - b; }
inline Tracked& operator*=(Tracked& a, const Tracked& b) { return a = a * b; }

inline Tracked function_of(const Tracked& x, double value, double derivative, double roundings) {
  const double amplified = x.magnitude == 0 ? 0 : std::abs(derivative) * x.magnitude;
  return {value, std::max(std::abs(value), amplified), std::max(x.roundings, 0.0) + roundings};
}
inline Tracked sqrt(const Tracked& x) { return function_of(x, std::sqrt(x.value), 0.5 / std::sqrt(x.value), 1); }
inline Tracked exp(const Tracked& x) {
  return function_of(x, std::exp(x.value), std::exp(x.value), function_roundings);
}
inline Tracked log(const Tracked& x) { return function_of(x, std::log(x.value), 1 / x.value, function_roundings); }
inline Tracked tanh(const Tracked& x) {
  const double t = std::tanh(x.value);
  return function_of(x, t, 1 - t * t, function_roundings);
}

// Computed as 1 - erf x, as an f32 kernel may do. The error is therefore relative to 1, not to the tail.
inline Tracked erfc_of(const Tracked& x) {
  const double slope = 2 / std::sqrt(std::acos(-1.0)) * std::exp(-x.value * x.value);
  return Tracked(1) - function_of(x, std::erf(x.value), slope, function_roundings);
}

inline double real_part(const Tracked& x) { return x.value; }

// Runs the reference's op on Tracked scalars; instantiated in tracked.cpp.
template <class Args>
void compute_tracked(const Args& args);

}  // namespace comera::kernels::test
