// Activations and their derivatives, in f32.
#pragma once

#include <type_traits>

#include "kernels/cuda/common/element.h"

namespace comera::kernels::cuda {

COMERA_DEVICE float normal_cdf(float x) { return 0.5f * erfcf(-x * 0.70710678118654752f); }
COMERA_DEVICE float normal_density(float x) { return 0.39894228040143268f * expf(-0.5f * x * x); }
COMERA_DEVICE float logistic(float x) {
  const float e = expf(-fabsf(x));
  return (x >= 0 ? 1.0f : e) / (1.0f + e);
}

// gelu_tanh(x) = x logistic(argument): 2 sqrt(2 / pi) (x + 0.044715 x^3).
COMERA_DEVICE float gelu_tanh_argument(float x) { return x * (1.5957691216f + 0.0713548163f * x * x); }

// The logistic function and the normal distribution for results in bf16, without divisions: a third of the instructions
// of the exact arithmetic. The logistic function has an error of a few units in the last place. The normal distribution
// function and its density share one exponential: Abramowitz and Stegun, 7.1.26; the error of the distribution is at
// most 1.5e-7.
COMERA_DEVICE float fast_logistic(float x) { return fast_reciprocal(1.0f + fast_exp2(-1.4426950409f * x)); }
struct Normal {
  float cdf, density;
};
COMERA_DEVICE Normal normal_of(float x) {
  const float e = fast_exp2(-0.72134752f * x * x);                 // 1 / (2 ln 2)
  const float t = fast_reciprocal(1.0f + 0.23164189f * fabsf(x));  // 0.3275911 / sqrt(2)
  const float tail =
      e * t * (0.127414796f + t * (-0.142248368f + t * (0.7107068705f + t * (-0.7265760135f + t * 0.5307027145f))));
  return {x < 0 ? tail : 1.0f - tail, 0.39894228040143268f * e};
}

// cdf(x) + x density(x), the derivative of GELU, by the same formula. It is 1 minus its value at -x.
COMERA_DEVICE float fast_gelu_slope(float x) {
  const float size = fabsf(x), e = fast_exp2(-0.72134752f * x * x), t = fast_reciprocal(1.0f + 0.23164189f * size);
  const float below =
      e * (t * (0.127414796f + t * (-0.142248368f + t * (0.7107068705f + t * (-0.7265760135f + t * 0.5307027145f)))) -
           0.39894228040143268f * size);
  return x < 0 ? below : 1.0f - below;
}

// activate: the activation at x. activation_slope: its derivative. T is the element type of the result.
template <class T>
COMERA_DEVICE float activate(Activation activation, float x) {
  constexpr bool fast = sizeof(T) == 2;
  switch (activation) {
    case Activation::none: return x;
    case Activation::gelu: return x * (fast ? normal_of(x).cdf : normal_cdf(x));
    case Activation::silu: return x * (fast ? fast_logistic(x) : logistic(x));
    case Activation::tanh: return tanhf(x);
    case Activation::gelu_tanh: {
      const float z = gelu_tanh_argument(x);
      return x * (fast ? fast_logistic(z) : logistic(z));
    }
    case Activation::relu: return x <= 0 ? 0 : x;
  }
  return x;
}

template <class T>
COMERA_DEVICE float activation_slope(Activation activation, float x) {
  constexpr bool fast = sizeof(T) == 2;
  switch (activation) {
    case Activation::none: return 1;
    case Activation::gelu: return fast ? fast_gelu_slope(x) : normal_cdf(x) + x * normal_density(x);
    case Activation::silu: {
      const float s = fast ? fast_logistic(x) : logistic(x);
      return s + x * s * (1 - s);
    }
    case Activation::tanh: {
      const float t = fast ? 2 * fast_logistic(2 * x) - 1 : tanhf(x);
      return 1 - t * t;
    }
    case Activation::gelu_tanh: {
      const float z = gelu_tanh_argument(x), s = fast ? fast_logistic(z) : logistic(z),
                  rest = fast ? 1 - s : logistic(-z);
      return s + x * (s * rest) * (1.5957691216f + 0.2140644488f * x * x);
    }
    case Activation::relu: return x > 0 ? 1 : 0;
  }
  return 1;
}

// Calls f with the activation as a compile-time constant, so that a loop does not branch on it for each element.
template <class F>
__device__ void with_constant(Activation activation, const F& f) {
  switch (activation) {
    case Activation::none: return f(std::integral_constant<Activation, Activation::none>());
    case Activation::gelu: return f(std::integral_constant<Activation, Activation::gelu>());
    case Activation::silu: return f(std::integral_constant<Activation, Activation::silu>());
    case Activation::tanh: return f(std::integral_constant<Activation, Activation::tanh>());
    case Activation::gelu_tanh: return f(std::integral_constant<Activation, Activation::gelu_tanh>());
    case Activation::relu: return f(std::integral_constant<Activation, Activation::relu>());
  }
}

}  // namespace comera::kernels::cuda
