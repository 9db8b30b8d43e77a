// Reference of kernels/logistic.h.
#pragma once

#include "kernels/logistic.h"
#include "kernels/reference/scalar.h"

namespace comera::kernels::reference {

// log(1 + exp(z)) without overflow.
template <class T>
T softplus(const T& z) {
  using std::exp;
  using std::log;
  if (real_part(z) > 0) return z + log(T(1) + exp(-z));
  return log(T(1) + exp(z));
}

// The logits are read in the wide type, so that the reference in f32 sums what the backends sum.
template <class T>
void compute(const LogisticLoss& a) {
  using W = typename Wide<T>::type;
  W loss(0);
  double correct = 0;
  for (std::int64_t k = 0; k < a.rows; ++k) {
    if (a.targets[k] < 0) continue;
    const W z(in<T>(a.logits)[k]);
    loss += softplus(z) - (a.targets[k] == 1 ? z : W(0));
    correct += (real_part(z) > 0) == (a.targets[k] == 1);
  }
  *static_cast<W*>(a.loss) += loss * W(*a.loss_scale);
  if (a.correct) *a.correct += correct;
}

template <class T>
void compute(const LogisticBackward& a) {
  for (std::int64_t k = 0; k < a.rows; ++k) {
    const T d = sigmoid(in<T>(a.logits)[k]) - T(a.targets[k] == 1 ? 1 : 0);
    out<T>(a.d_logits)[k] = a.targets[k] < 0 ? T(0) : d * T(*a.loss_scale);
  }
}

}  // namespace comera::kernels::reference
