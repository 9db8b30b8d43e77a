// Reference of kernels/cross_entropy.h.
#pragma once

#include "kernels/cross_entropy.h"
#include "kernels/reference/scalar.h"

namespace comera::kernels::reference {

// Folds one logit into a running maximum and sum.
template <class T>
void fold(const T& logit, T& maximum, T& sum) {
  using std::exp;
  if (real_part(logit) > real_part(maximum)) {
    sum = sum * exp(maximum - logit) + T(1);
    maximum = logit;
  } else {
    sum += exp(logit - maximum);
  }
}

template <class T>
void compute(const CrossEntropyChunk& a) {
  for (std::int64_t i = 0; i < a.rows; ++i) {
    const T* logits = in<T>(a.logits) + i * a.ld;
    T &maximum = out<T>(a.maximum)[i], &sum = out<T>(a.sum)[i];
    for (std::int64_t j = 0; j < a.columns; ++j) {
      const bool first = a.start && j == 0;
      if (first || real_part(logits[j]) > real_part(maximum)) a.best[i] = static_cast<std::int32_t>(a.first + j);
      if (first) {
        maximum = logits[j], sum = T(1);
      } else {
        fold(logits[j], maximum, sum);
      }
      if (a.targets[i] == a.first + j) out<T>(a.target_logit)[i] = logits[j];
    }
  }
}

template <class T>
void compute(const CrossEntropyLoss& a) {
  using std::log;
  using W = typename Wide<T>::type;
  for (std::int64_t i = 0; i < a.rows; ++i) {
    if (a.targets[i] < 0) continue;
    const W maximum(in<T>(a.maximum)[i]), sum(in<T>(a.sum)[i]), target(in<T>(a.target_logit)[i]);
    *out<W>(a.loss) += (log(sum) + (maximum - target)) * W(*a.loss_scale);
    if (a.correct && a.best[i] == a.targets[i]) *a.correct += 1;
  }
}

template <class T>
void compute(const CrossEntropyBackward& a) {
  using std::exp;
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = 0; j < a.columns; ++j) {
      T& logit = out<T>(a.logits)[i * a.ld + j];
      const T p = exp(logit - in<T>(a.maximum)[i]) / in<T>(a.sum)[i];
      logit = a.targets[i] < 0 ? T(0) : (p - T(a.targets[i] == a.first + j ? 1 : 0)) * T(*a.loss_scale);
    }
}

}  // namespace comera::kernels::reference
