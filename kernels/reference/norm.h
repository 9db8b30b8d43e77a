// Reference of kernels/norm.h.
#pragma once

#include "kernels/norm.h"
#include "kernels/reference/scalar.h"

namespace comera::kernels::reference {

template <class T>
T mean_of(const T* x, std::int64_t count) {
  T sum(0);
  for (std::int64_t j = 0; j < count; ++j) sum += x[j];
  return sum / T(static_cast<double>(count));
}

template <class T>
T mean_product(const T* x, const T* y, std::int64_t count) {
  T sum(0);
  for (std::int64_t j = 0; j < count; ++j) sum += x[j] * y[j];
  return sum / T(static_cast<double>(count));
}

template <class T>
void compute(const NormApply& a) {
  for (std::int64_t k = 0; k < a.tokens; ++k) {
    const T mean = a.kind == NormKind::layer ? in<T>(a.mean)[k] : T(0), rstd = in<T>(a.rstd)[k];
    for (std::int64_t j = 0; j < a.columns; ++j) {
      T y = (in<T>(a.sum)[k * a.columns + j] - mean) * rstd * in<T>(a.gain)[j];
      if (a.shift) y += in<T>(a.shift)[j];
      out<T>(a.y)[k * a.columns + j] = y * T(dropout_factor(a.output_dropout, k, j));
    }
  }
}

template <class T>
void compute(const NormForward& a) {
  using std::sqrt;
  std::vector<T> s(a.tokens * a.columns, T(0));
  for (std::int64_t k = 0; k < a.tokens; ++k) {
    T* row = s.data() + k * a.columns;
    for (std::int64_t j = 0; j < a.columns; ++j) {
      const std::int64_t i = k * a.columns + j;
      row[j] = in<T>(a.x)[i];
      if (a.dropout.probability > 0) row[j] *= T(dropout_factor(a.dropout, k, j));
      if (a.residual) row[j] += in<T>(a.residual)[i];
      if (a.sum) out<T>(a.sum)[i] = row[j];
    }
    const T mean = a.kind == NormKind::layer ? mean_of(row, a.columns) : T(0);
    std::vector<T> centred(row, row + a.columns);
    for (T& c : centred) c -= mean;
    if (a.kind == NormKind::layer) out<T>(a.mean)[k] = mean;
    out<T>(a.rstd)[k] = T(1) / sqrt(mean_product(centred.data(), centred.data(), a.columns) + T(a.epsilon));
  }
  NormApply apply;
  apply.kind = a.kind, apply.tokens = a.tokens, apply.columns = a.columns, apply.sum = s.data(), apply.mean = a.mean,
  apply.rstd = a.rstd;
  apply.gain = a.gain, apply.shift = a.shift, apply.output_dropout = a.output_dropout, apply.y = a.y;
  compute<T>(apply);
}

// With h = (s - mean) rstd and g = dy gain: ds = rstd (g - mean(g) - h mean(g h)); rms has no term mean(g).
template <class T>
void compute(const NormBackward& a) {
  std::vector<T> h(a.columns, T(0)), g(a.columns, T(0));
  for (std::int64_t k = 0; k < a.tokens; ++k) {
    const T mean = a.kind == NormKind::layer ? in<T>(a.mean)[k] : T(0), rstd = in<T>(a.rstd)[k];
    for (std::int64_t j = 0; j < a.columns; ++j) {
      const T dy = in<T>(a.dy)[k * a.columns + j] * T(dropout_factor(a.output_dropout, k, j));
      h[j] = (in<T>(a.sum)[k * a.columns + j] - mean) * rstd;
      g[j] = dy * in<T>(a.gain)[j];
      out<T>(a.d_gain)[j] += dy * h[j];
      if (a.d_shift) out<T>(a.d_shift)[j] += dy;
    }
    const T g_mean = a.kind == NormKind::layer ? mean_of(g.data(), a.columns) : T(0),
            gh_mean = mean_product(g.data(), h.data(), a.columns);
    for (std::int64_t j = 0; j < a.columns; ++j) {
      const std::int64_t i = k * a.columns + j;
      T d_sum = rstd * (g[j] - g_mean - h[j] * gh_mean);
      if (a.d_sum_in) d_sum += in<T>(a.d_sum_in)[i];
      out<T>(a.d_sum)[i] = d_sum;
      if (a.dx) out<T>(a.dx)[i] = d_sum * T(dropout_factor(a.dropout, k, j));
    }
  }
}

}  // namespace comera::kernels::reference
