// The AdamW update of kernels/optimizer.h for vectors, with the same operations.
#pragma once

#include "kernels/cpu/common/simd.h"
#include "kernels/optimizer.h"

namespace comera::kernels::COMERA_CPU {

struct VectorMoments {
  F first, second;
};

struct AdamwVector {
  F scale, beta1, rest1, beta2, rest2, correction1, correction2, epsilon, decay, rate;

  explicit AdamwVector(const AdamwFactors& f)
      : scale(set(f.scale)),
        beta1(set(f.beta1)),
        rest1(set(f.rest1)),
        beta2(set(f.beta2)),
        rest2(set(f.rest2)),
        correction1(set(f.correction1)),
        correction2(set(f.correction2)),
        epsilon(set(f.epsilon)),
        decay(set(f.decay)),
        rate(set(f.rate)) {}

  VectorMoments new_moments(VectorMoments old, F gradient) const {
    const F g = gradient * scale;
    return {fma(beta1, old.first, rest1 * g), fma(beta2, old.second, rest2 * g * g)};
  }
  F new_value(VectorMoments m, F value) const {
    const F direction = m.first * correction1 / (sqrt(m.second * correction2) + epsilon);
    return fnma(rate, fma(decay, value, direction), value);
  }
};

}  // namespace comera::kernels::COMERA_CPU
