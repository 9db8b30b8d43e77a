// Activations and their derivatives, in f32.
#pragma once

#include "kernels/cuda/device.h"

namespace comera::kernels::cuda {

COMERA_DEVICE float normal_cdf(float x) { return 0.5f * erfcf(-x * 0.70710678118654752f); }
COMERA_DEVICE float normal_density(float x) { return 0.39894228040143268f * expf(-0.5f * x * x); }
COMERA_DEVICE float logistic(float x) {
  const float e = expf(-fabsf(x));
  return (x >= 0 ? 1.0f : e) / (1.0f + e);
}

COMERA_DEVICE float activate(Activation activation, float x) {
  switch (activation) {
    case Activation::none: return x;
    case Activation::gelu: return x * normal_cdf(x);
    case Activation::silu: return x * logistic(x);
    case Activation::tanh: return tanhf(x);
  }
  return x;
}

COMERA_DEVICE float activation_slope(Activation activation, float x) {
  switch (activation) {
    case Activation::none: return 1;
    case Activation::gelu: return normal_cdf(x) + x * normal_density(x);
    case Activation::silu: {
      const float s = logistic(x);
      return s + x * s * (1 - s);
    }
    case Activation::tanh: {
      const float t = tanhf(x);
      return 1 - t * t;
    }
  }
  return 1;
}

}  // namespace comera::kernels::cuda
