// Reference of kernels/linear.h.
#pragma once

#include "kernels/linear.h"
#include "kernels/reference/scalar.h"

namespace comera::kernels::reference {

template <class T>
void compute(const LinearForward& a) {
  for (std::int64_t k = 0; k < a.tokens; ++k)
    for (std::int64_t n = 0; n < a.out; ++n) {
      T sum = a.bias ? in<T>(a.bias)[n] : T(0);
      for (std::int64_t m = 0; m < a.in; ++m) sum += in<T>(a.x)[k * a.ldx + m] * in<T>(a.weight)[m * a.out + n];
      if (a.pre) out<T>(a.pre)[k * a.ldy + n] = sum;
      out<T>(a.y)[k * a.ldy + n] = activate(a.activation, sum);
    }
}

template <class T>
void compute(const LinearBackward& a) {
  T* d_pre = out<T>(a.dy);
  for (std::int64_t k = 0; k < a.tokens; ++k)
    for (std::int64_t n = 0; n < a.out; ++n) {
      T& d = d_pre[k * a.lddy + n];
      if (a.activation != Activation::none) d *= activation_derivative(a.activation, in<T>(a.pre)[k * a.lddy + n]);
      if (a.d_bias) out<T>(a.d_bias)[n] += d;
    }
  if (!a.dx) return;
  for (std::int64_t k = 0; k < a.tokens; ++k)
    for (std::int64_t m = 0; m < a.in; ++m) {
      T& dx = out<T>(a.dx)[k * a.lddx + m];
      T sum = a.accumulate_dx ? dx : T(0);
      for (std::int64_t n = 0; n < a.out; ++n) sum += d_pre[k * a.lddy + n] * in<T>(a.weight)[m * a.out + n];
      dx = sum;
    }
}

template <class T>
void compute(const Product& a) {
  for (std::int64_t m = 0; m < a.in; ++m)
    for (std::int64_t n = 0; n < a.out; ++n)
      for (std::int64_t k = 0; k < a.tokens; ++k)
        out<T>(a.result)[m * a.ld_result + n] += in<T>(a.x)[k * a.ldx + m] * in<T>(a.g)[k * a.ldg + n];
}

template <class T>
void compute(const MatMul& a) {
  for (std::int64_t i = 0; i < a.m; ++i)
    for (std::int64_t j = 0; j < a.n; ++j) {
      T& c = out<T>(a.c)[i * a.ldc + j];
      T sum = a.accumulate ? c : T(0);
      for (std::int64_t l = 0; l < a.k; ++l)
        sum += in<T>(a.a)[a.transpose_a ? l * a.lda + i : i * a.lda + l] *
               in<T>(a.b)[a.transpose_b ? j * a.ldb + l : l * a.ldb + j];
      c = sum;
    }
}

template <class T>
void compute(const ParameterProduct& a) {
  compute<T>(a.product);
}

}  // namespace comera::kernels::reference
