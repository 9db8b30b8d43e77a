// Reference of kernels/elementwise.h.
#pragma once

#include <cstring>

#include "kernels/elementwise.h"
#include "kernels/reference/scalar.h"

namespace comera::kernels::reference {

template <class T>
void compute(const ActivationForward& a) {
  for (std::int64_t i = 0; i < a.count; ++i) out<T>(a.y)[i] = activate(a.activation, in<T>(a.x)[i]);
}

template <class T>
void compute(const ActivationBackward& a) {
  for (std::int64_t i = 0; i < a.count; ++i)
    out<T>(a.dx)[i] = in<T>(a.dy)[i] * activation_derivative(a.activation, in<T>(a.x)[i]);
}

template <class T>
void compute(const GatedForward& a) {
  for (std::int64_t i = 0; i < a.count; ++i) {
    const std::int64_t at = a.rows.place(i);
    out<T>(a.y)[i] = activate(a.activation, in<T>(a.gate)[at]) * in<T>(a.up)[at];
  }
}

template <class T>
void compute(const GatedBackward& a) {
  for (std::int64_t i = 0; i < a.count; ++i) {
    const std::int64_t at = a.rows.place(i);
    const T gate = in<T>(a.gate)[at], up = in<T>(a.up)[at], dy = in<T>(a.dy)[i];
    out<T>(a.d_gate)[at] = dy * up * activation_derivative(a.activation, gate);
    out<T>(a.d_up)[at] = dy * activate(a.activation, gate);
  }
}

template <class T>
void compute(const DropoutApply& a) {
  for (std::int64_t k = 0; k < a.tokens; ++k)
    for (std::int64_t j = 0; j < a.columns; ++j)
      out<T>(a.y)[k * a.columns + j] = in<T>(a.x)[k * a.columns + j] * T(dropout_factor(a.dropout, k, j));
}

template <class T>
void compute(const Fill& a) {
  if (a.bytes > 0) std::memset(a.data, 0, a.bytes);
}

template <class T>
void compute(const AddScaled& a) {
  for (std::int64_t i = 0; i < a.count; ++i) out<T>(a.y)[i] += T(a.scale) * in<T>(a.x)[i];
}

template <class T>
void compute(const GatherRows& a) {
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = 0; j < a.columns; ++j)
      out<T>(a.y)[i * a.columns + j] = a.index[i] < 0 ? T(0) : in<T>(a.x)[a.index[i] * a.ldx + j];
}

template <class T>
void compute(const ScatterRows& a) {
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = 0; j < a.columns && a.index[i] >= 0; ++j)
      out<T>(a.dx)[a.index[i] * a.lddx + j] += in<T>(a.dy)[i * a.source_distance() + j];
}

}  // namespace comera::kernels::reference
