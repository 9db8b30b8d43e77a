// Shared parts of the reference ops: functions of a scalar that may be float, double or std::complex<double>, and
// views. All functions are analytic, so f(x + ih) has the derivative in its imaginary part (the complex step: Squire
// and Trapp 1998, SIAM Review 40). Comparisons and maxima use the real part.
#pragma once

#include <cmath>
#include <complex>
#include <limits>
#include <vector>

#include "kernels/philox.h"
#include "kernels/types.h"

namespace comera::kernels::reference {

constexpr double pi = 3.14159265358979323846;

inline double real_part(double x) { return x; }
inline double real_part(const std::complex<double>& x) { return x.real(); }

// Type of sums over many rows.
template <class T>
struct Wide {
  using type = T;
};
template <>
struct Wide<float> {
  using type = double;
};

inline float erfc_of(float x) { return std::erfc(x); }
inline double erfc_of(double x) { return std::erfc(x); }

// erf z = 2/sqrt(pi) exp(-z^2) sum_n 2^n z^(2n+1) / (2n+1)!!. Every term has the sign of z, so there is no cancellation
// near the real axis. Abramowitz and Stegun 7.1.6.
inline std::complex<double> erf_series(std::complex<double> z) {
  std::complex<double> term = z, sum = z;
  for (int n = 1; n < 200; ++n) sum += term *= 2.0 * z * z / (2.0 * n + 1);
  return 2 / std::sqrt(pi) * std::exp(-z * z) * sum;
}

// erfc z = exp(-z^2) / sqrt(pi) / (z + (1/2) / (z + 1 / (z + (3/2) / (z + ...)))) for Re z > 0. Abramowitz and
// Stegun 7.1.14.
inline std::complex<double> erfc_fraction(std::complex<double> z) {
  std::complex<double> tail = z;
  for (int n = 200; n > 0; --n) tail = z + 0.5 * n / tail;
  return std::exp(-z * z) / (std::sqrt(pi) * tail);
}

inline std::complex<double> erfc_of(const std::complex<double>& z) {
  if (z.real() > 2) return erfc_fraction(z);
  if (z.real() < -2) return 2.0 - erfc_fraction(-z);
  return 1.0 - erf_series(z);
}

template <class T>
T normal_cdf(const T& x) {
  return T(0.5) * erfc_of(-x * T(std::sqrt(0.5)));
}

template <class T>
T normal_density(const T& x) {
  using std::exp;
  return T(1 / std::sqrt(2 * pi)) * exp(T(-0.5) * x * x);
}

template <class T>
T sigmoid(const T& x) {
  using std::exp;
  return T(1) / (T(1) + exp(-x));
}

// The argument of tanh in gelu_tanh.
template <class T>
T gelu_tanh_argument(const T& x) {
  return T(std::sqrt(2 / pi)) * x * (T(1) + T(0.044715) * x * x);
}

template <class T>
T activate(Activation activation, const T& x) {
  using std::tanh;
  switch (activation) {
    case Activation::none: break;
    case Activation::gelu: return x * normal_cdf(x);
    case Activation::silu: return x * sigmoid(x);
    case Activation::tanh: return tanh(x);
    case Activation::gelu_tanh: return T(0.5) * x * (T(1) + tanh(gelu_tanh_argument(x)));
    case Activation::relu: return real_part(x) <= 0 ? T(0) : x;
  }
  return x;
}

template <class T>
T activation_derivative(Activation activation, const T& x) {
  using std::tanh;
  switch (activation) {
    case Activation::none: break;
    case Activation::gelu: return normal_cdf(x) + x * normal_density(x);
    case Activation::silu: return sigmoid(x) * (T(1) + x * (T(1) - sigmoid(x)));
    case Activation::tanh: return T(1) - tanh(x) * tanh(x);
    case Activation::gelu_tanh: {
      const T t = tanh(gelu_tanh_argument(x)), slope = T(std::sqrt(2 / pi)) * (T(1) + T(3 * 0.044715) * x * x);
      return T(0.5) * (T(1) + t + x * (T(1) - t * t) * slope);
    }
    case Activation::relu: return real_part(x) > 0 ? T(1) : T(0);
  }
  return T(1);
}

template <class T>
const T* in(const void* data) {
  return static_cast<const T*>(data);
}
template <class T>
T* out(void* data) {
  return static_cast<T*>(data);
}

// Dropout factor of row k, feature j of a [K, N] tensor.
inline double dropout_factor(const Dropout& dropout, std::int64_t k, std::int64_t j) {
  if (dropout.probability <= 0) return 1;
  const std::int64_t sequence = k / dropout.tokens_per_sample, token = k % dropout.tokens_per_sample;
  return DropoutRule(dropout).factor(dropout.samples[sequence], token, static_cast<std::uint64_t>(j));
}

}  // namespace comera::kernels::reference
