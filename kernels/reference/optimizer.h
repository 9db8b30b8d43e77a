// Reference of kernels/optimizer.h.
#pragma once

#include "kernels/optimizer.h"
#include "kernels/reference/scalar.h"

namespace comera::kernels::reference {

template <class T>
void update(const AdamwTensor& t, double gradient_scale) {
  using std::sqrt;
  const AdamwScalars& s = *t.scalars;
  for (std::int64_t i = 0; i < t.count; ++i) {
    const T g = in<T>(t.gradient)[i] * T(gradient_scale);
    T &w = out<T>(t.value)[i], &m = out<T>(t.moment1)[i], &v = out<T>(t.moment2)[i];
    m = T(s.beta1) * m + T(1 - s.beta1) * g;
    v = T(s.beta2) * v + T(1 - s.beta2) * g * g;
    w -= T(s.learning_rate * t.rate_scale) *
         (T(s.weight_decay) * w + m / T(s.correction1) / (sqrt(v / T(s.correction2)) + T(s.epsilon)));
  }
}

template <class T>
void compute(const Adamw& a) {
  if (a.scalars->finite == 0) return;
  for (int i = 0; i < a.count; ++i) update<T>(a.tensors[i], a.scalars->gradient_scale);
}

template <class T>
void compute(const Decay& a) {
  if (a.scalars->finite == 0) return;
  for (int i = 0; i < a.count; ++i)
    for (std::int64_t j = 0; j < a.tensors[i].count; ++j)
      out<T>(a.tensors[i].value)[j] *= T(1 - a.tensors[i].scalars->learning_rate * a.tensors[i].scalars->weight_decay);
}

template <class T>
void compute(const SquareSum& a) {
  typename Wide<T>::type sum(0);
  for (int i = 0; i < a.count; ++i)
    for (std::int64_t j = 0; j < a.tensors[i].count; ++j) {
      const typename Wide<T>::type x(in<T>(a.tensors[i].data)[j]);
      sum += x * x;
    }
  *a.result = real_part(sum);
}

template <class T>
void compute(const ClipGradient& a) {
  const double norm = std::sqrt(*a.square_sum);
  a.scalars->gradient_scale = a.max_norm > 0 && norm > a.max_norm ? a.max_norm / norm : 1;
  a.scalars->finite = std::isfinite(norm) && std::isfinite(*a.loss) && std::isfinite(*a.applied) ? 1 : 0;
}

}  // namespace comera::kernels::reference
