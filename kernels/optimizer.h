// AdamW (Loshchilov and Hutter 2019, arXiv 1711.05101), norms and clipping, for many tensors in one call.
#pragma once

#include <cmath>

#include "kernels/philox.h"
#include "kernels/step_scalars.h"

namespace comera::kernels {

struct AdamwTensor {
  std::int64_t count = 0;
  void* value = nullptr;
  const void* gradient = nullptr;
  void* moment1 = nullptr;
  void* moment2 = nullptr;
  const AdamwScalars* scalars = nullptr;
  float rate_scale = 1;
};
// g = gradient * gradient_scale; m = b1 m + (1-b1) g; v = b2 v + (1-b2) g^2;
// w -= lr rate_scale (wd w + (m/c1) / (sqrt(v/c2) + eps)). Changes nothing if scalars->finite is 0.
struct Adamw {
  const AdamwTensor* tensors = nullptr;  // host memory
  int count = 0;
  const StepScalars* scalars = nullptr;
};

// The same for one element in float, for kernels. Explicit multiply-adds give the same bits on every backend. The CPU
// loops over vectors have the same form (kernels/cpu/common/adamw_vector.h).
struct AdamwFactors {
  float scale, beta1, rest1, beta2, rest2, correction1, correction2, epsilon, decay, rate;

  COMERA_HD AdamwFactors(const AdamwScalars& s, double gradient_scale, double rate_scale = 1)
      : scale(static_cast<float>(gradient_scale)),
        beta1(static_cast<float>(s.beta1)),
        rest1(static_cast<float>(1 - s.beta1)),
        beta2(static_cast<float>(s.beta2)),
        rest2(static_cast<float>(1 - s.beta2)),
        correction1(static_cast<float>(1 / s.correction1)),
        correction2(static_cast<float>(1 / s.correction2)),
        epsilon(static_cast<float>(s.epsilon)),
        decay(static_cast<float>(s.weight_decay)),
        rate(static_cast<float>(s.learning_rate * rate_scale)) {}
};

struct Moments {
  float first, second;
};

COMERA_HD inline Moments new_moments(const AdamwFactors& f, Moments old, float gradient) {
  const float g = gradient * f.scale, part = f.rest1 * g, square = f.rest2 * g * g;
  return {fmaf(f.beta1, old.first, part), fmaf(f.beta2, old.second, square)};
}

COMERA_HD inline float new_value(const AdamwFactors& f, Moments m, float value) {
  const float root = sqrtf(m.second * f.correction2), direction = m.first * f.correction1 / (root + f.epsilon);
  return fmaf(-f.rate, fmaf(f.decay, value, direction), value);
}

// The decay of AdamW alone, for weights whose update comes from a subspace: value *= 1 - lr * wd.
struct DecayTensor {
  std::int64_t count = 0;
  void* value = nullptr;
  const AdamwScalars* scalars = nullptr;
};
struct Decay {
  const DecayTensor* tensors = nullptr;
  int count = 0;
  const StepScalars* scalars = nullptr;  // if its loss or gradient is not finite, nothing changes
};

struct ConstTensor {
  std::int64_t count = 0;
  const void* data = nullptr;
};
// *result = sum of squares over all tensors, in double, in an order that depends on the shapes alone.
struct SquareSum {
  const ConstTensor* tensors = nullptr;  // host memory
  int count = 0;
  double* result = nullptr;
};
// gradient_scale = max_norm > 0 and norm > max_norm ? max_norm / norm : 1, with norm = sqrt(*square_sum). finite = 0 if
// norm, *loss or *applied is not finite.
struct ClipGradient {
  double max_norm = 0;
  const double* square_sum = nullptr;
  const double* loss = nullptr;
  const double* applied = nullptr;  // sum of squares of gradients that the backward has applied (kernels/lomo.h)
  StepScalars* scalars = nullptr;
};

constexpr double flops(const Adamw& a) {
  double sum = 0;
  for (int i = 0; i < a.count; ++i) sum += 12.0 * a.tensors[i].count;
  return sum;
}
constexpr double flops(const Decay& a) {
  double sum = 0;
  for (int i = 0; i < a.count; ++i) sum += static_cast<double>(a.tensors[i].count);
  return sum;
}
constexpr double flops(const SquareSum& a) {
  double sum = 0;
  for (int i = 0; i < a.count; ++i) sum += 2.0 * a.tensors[i].count;
  return sum;
}
constexpr double flops(const ClipGradient&) { return 0; }

}  // namespace comera::kernels
