// Reference of kernels/adagrad.h.
#pragma once

#include "kernels/adagrad.h"
#include "kernels/reference/scalar.h"

namespace comera::kernels::reference {

template <class T>
void update(const AdagradTensor& t, double gradient_scale, double epsilon) {
  using std::sqrt;
  for (std::int64_t i = 0; i < t.count; ++i) {
    const T g = in<T>(t.gradient)[i] * T(gradient_scale);
    T &w = out<T>(t.value)[i], &s = out<T>(t.square_sum)[i];
    s += g * g;
    w -= T(t.scalars->learning_rate) * (T(t.scalars->weight_decay) * w + g / (sqrt(s) + T(epsilon)));
  }
}

template <class T>
void compute(const Adagrad& a) {
  if (a.scalars->finite == 0) return;
  for (int i = 0; i < a.count; ++i) update<T>(a.tensors[i], a.scalars->gradient_scale, a.epsilon);
}

template <class T>
void compute(const Sgd& a) {
  if (a.scalars->finite == 0) return;
  for (int i = 0; i < a.count; ++i) {
    const SgdTensor& t = a.tensors[i];
    for (std::int64_t j = 0; j < t.count; ++j) {
      T& w = out<T>(t.value)[j];
      w -= T(t.scalars->learning_rate) *
           (T(t.scalars->weight_decay) * w + in<T>(t.gradient)[j] * T(a.scalars->gradient_scale));
    }
  }
}

}  // namespace comera::kernels::reference
