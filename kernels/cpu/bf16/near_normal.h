// The normal distribution for results that are rounded to bf16: relative error below 2^-12, a sixteenth of that
// rounding. The same form as normal() of simd.h, Phi(-t) = e^(-t^2/2) P(q) / (t + 4) with q = (t - 4) / (t + 4), with
// minimax fits of fewer terms and an approximate reciprocal.
#pragma once

#include "kernels/cpu/common/simd.h"

namespace comera::kernels::COMERA_CPU {

inline Normal near_normal(F x) {
  const F t = min(set(14.0f), abs(x));
  const F power = t * t * set(-0.5f), n = round(power * set(1.44269504f)), r = fnma(n, set(0.69314718f), power);
  const F e = scale_by_power(polynomial(r, {0.99992807f, 1.00016418f, 0.50496328f, 0.16566842f}), n);
  const F k = {_mm512_rcp14_ps((t + set(4.0f)).v)};
  const F q = (t - set(4.0f)) * k;
  const F p = polynomial(q, {0.75528315f, -0.60757139f, 0.38702463f, -0.18984692f, 0.06017323f});
  const F tail = e * (k * p);
  return {e * set(0.398942280f), select(x < zero(), tail, set(1.0f) - tail)};
}

}  // namespace comera::kernels::COMERA_CPU
