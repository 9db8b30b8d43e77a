// Updates with one number of state per parameter or none, for many tensors in one call: Adagrad (Duchi et al. 2011,
// JMLR 12; as torch.optim.Adagrad without a decay of its rate) and SGD. Weight decay is apart from the gradient, as
// AdamW's.
#pragma once

#include <cmath>

#include "kernels/philox.h"
#include "kernels/step_scalars.h"

namespace comera::kernels {

struct AdagradTensor {
  std::int64_t count = 0;
  void* value = nullptr;
  const void* gradient = nullptr;
  void* square_sum = nullptr;             // of all gradients so far, per element
  const AdamwScalars* scalars = nullptr;  // learning_rate, weight_decay
};
// g = gradient * gradient_scale; s += g^2; w -= lr (wd w + g / (sqrt(s) + eps)). Changes nothing if scalars->finite is
// 0.
struct Adagrad {
  const AdagradTensor* tensors = nullptr;  // host memory
  int count = 0;
  double epsilon = 1e-10;
  const StepScalars* scalars = nullptr;
};

struct SgdTensor {
  std::int64_t count = 0;
  void* value = nullptr;
  const void* gradient = nullptr;
  const AdamwScalars* scalars = nullptr;  // learning_rate, weight_decay
};
// w -= lr (wd w + gradient * gradient_scale). Changes nothing if scalars->finite is 0.
struct Sgd {
  const SgdTensor* tensors = nullptr;  // host memory
  int count = 0;
  const StepScalars* scalars = nullptr;
};

// The same for one element in float, for kernels. Explicit multiply-adds give the same bits on every backend. The CPU
// loops over vectors have the same form.
struct StepFactors {
  float scale, decay, rate;

  COMERA_HD StepFactors(const AdamwScalars& s, double gradient_scale)
      : scale(static_cast<float>(gradient_scale)),
        decay(static_cast<float>(s.weight_decay)),
        rate(static_cast<float>(s.learning_rate)) {}
};

COMERA_HD inline float new_square_sum(float old, float g) { return fmaf(g, g, old); }
COMERA_HD inline float adagrad_direction(float g, float square_sum, float epsilon) {
  return g / (sqrtf(square_sum) + epsilon);
}
COMERA_HD inline float stepped(const StepFactors& f, float value, float direction) {
  return fmaf(-f.rate, fmaf(f.decay, value, direction), value);
}

constexpr double flops(const Adagrad& a) {
  double sum = 0;
  for (int i = 0; i < a.count; ++i) sum += 10.0 * a.tensors[i].count;
  return sum;
}
constexpr double flops(const Sgd& a) {
  double sum = 0;
  for (int i = 0; i < a.count; ++i) sum += 5.0 * a.tensors[i].count;
  return sum;
}

}  // namespace comera::kernels
