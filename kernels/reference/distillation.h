// Reference of kernels/distillation.h.
#pragma once

#include "kernels/distillation.h"
#include "kernels/reference/scalar.h"

namespace comera::kernels::reference {

// Returns 1 / (number of counted vectors of the sequence) for vector k, or 0 if it does not count.
template <class Args>
double share_of(const Args& a, std::int64_t k) {
  const std::int64_t count = a.lengths ? a.lengths[k / a.length] : a.length;
  return k % a.length < count ? 1 / static_cast<double>(count) : 0;
}

template <class T>
T inner(const T* x, const T* y, std::int64_t count) {
  T sum(0);
  for (std::int64_t j = 0; j < count; ++j) sum += x[j] * y[j];
  return sum;
}

template <class T>
T vector_length(const T* x, std::int64_t count) {
  using std::sqrt;
  const T norm = sqrt(inner(x, x, count));
  return real_part(norm) < shortest_vector ? T(shortest_vector) : norm;
}

template <class T>
T distance_of(Distance kind, const T* x, const T* target, std::int64_t columns) {
  if (kind == Distance::cosine)
    return T(1) - inner(x, target, columns) / (vector_length(x, columns) * vector_length(target, columns));
  T sum(0);
  for (std::int64_t j = 0; j < columns; ++j) sum += (x[j] - target[j]) * (x[j] - target[j]);
  return sum / T(static_cast<double>(columns));
}

template <class T>
void compute(const VectorDistance& a) {
  using W = typename Wide<T>::type;
  W loss(0);
  for (std::int64_t k = 0; k < a.sequences * a.length; ++k) {
    const double share = share_of(a, k);
    T& distance = out<T>(a.distances)[k];
    distance = share > 0
                   ? distance_of(a.distance, in<T>(a.x) + k * a.columns, in<T>(a.target) + k * a.columns, a.columns)
                   : T(0);
    if (share > 0) loss += W(distance) * W(share);
  }
  *out<W>(a.loss) += loss * W(a.weight * *a.scale);
}

// Squared distance: 2 (x - target) / N. Cosine c, with unit vectors u of x and v of the target: (c u - v) / |x|.
template <class T>
void compute(const VectorDistanceBackward& a) {
  for (std::int64_t k = 0; k < a.sequences * a.length; ++k) {
    const T factor(share_of(a, k) * a.weight * *a.scale);
    const T *x = in<T>(a.x) + k * a.columns, *target = in<T>(a.target) + k * a.columns;
    T* dx = out<T>(a.dx) + k * a.columns;
    const bool counts = share_of(a, k) > 0, cosine = counts && a.distance == Distance::cosine;
    const T length = cosine ? vector_length(x, a.columns) : T(1),
            other = cosine ? vector_length(target, a.columns) : T(1);
    const T along = cosine ? inner(x, target, a.columns) / (length * other) : T(0);
    for (std::int64_t j = 0; j < a.columns; ++j) {
      T d(0);
      if (cosine) d = factor * (along * x[j] / length - target[j] / other) / length;
      if (counts && !cosine) d = factor * T(2 / static_cast<double>(a.columns)) * (x[j] - target[j]);
      if (a.accumulate)
        dx[j] += d;
      else
        dx[j] = d;
    }
  }
}

// Rescales a sum to a new maximum.
template <class T>
T rescaled(const T& sum, const T& from, const T& to) {
  using std::exp;
  return sum * exp(from - to);
}

template <class T>
void compute(const DivergenceChunk& a) {
  using std::exp;
  const T t(a.temperature);
  for (std::int64_t i = 0; i < a.rows; ++i) {
    T* s = out<T>(a.state) + i * divergence_state;
    for (std::int64_t j = 0; j < a.columns; ++j) {
      const T z = in<T>(a.logits)[i * a.ld + j] / t, y = in<T>(a.teacher)[i * a.ld_teacher + j] / t;
      if (a.start && j == 0) {
        s[0] = z, s[1] = T(1), s[2] = y, s[3] = T(1), s[4] = y - z;
        continue;
      }
      if (real_part(z) > real_part(s[0])) s[1] = rescaled(s[1], s[0], z), s[0] = z;
      if (real_part(y) > real_part(s[2])) s[3] = rescaled(s[3], s[2], y), s[4] = rescaled(s[4], s[2], y), s[2] = y;
      s[1] += exp(z - s[0]);
      s[3] += exp(y - s[2]);
      s[4] += exp(y - s[2]) * (y - z);
    }
  }
}

template <class T>
void compute(const DivergenceLoss& a) {
  using std::log;
  using W = typename Wide<T>::type;
  for (std::int64_t i = 0; i < a.rows; ++i) {
    if (a.targets && a.targets[i] < 0) continue;
    const T* s = in<T>(a.state) + i * divergence_state;
    const W own = W(s[0]) + log(W(s[1])), teacher = W(s[2]) + log(W(s[3]));
    *out<W>(a.loss) += (W(s[4]) / W(s[3]) - teacher + own) * W(a.weight * a.temperature * a.temperature * *a.scale);
  }
}

template <class T>
void compute(const DivergenceBackward& a) {
  using std::exp;
  const T t(a.temperature), factor(a.weight * a.temperature * *a.scale);
  for (std::int64_t i = 0; i < a.rows; ++i) {
    const T* s = in<T>(a.state) + i * divergence_state;
    for (std::int64_t j = 0; j < a.columns; ++j) {
      const T p = exp(in<T>(a.logits)[i * a.ld + j] / t - s[0]) / s[1],
              q = exp(in<T>(a.teacher)[i * a.ld_teacher + j] / t - s[2]) / s[3];
      out<T>(a.d_logits)[i * a.columns + j] = a.targets && a.targets[i] < 0 ? T(0) : (p - q) * factor;
    }
  }
}

}  // namespace comera::kernels::reference
