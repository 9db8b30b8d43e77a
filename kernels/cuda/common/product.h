// The product of kernels/linear.h as a call of gemm.
#pragma once

#include "kernels/cuda/common/gemm.h"
#include "kernels/linear.h"

namespace comera::kernels::cuda {

// result += x^T g for activations x and g, summed over tokens in f32.
inline Gemm gemm_of(const Context& context, const Product& a) {
  Gemm g;
  g.m = a.in, g.n = a.out, g.k = a.tokens, g.in = context.dtype, g.out = DType::f32, g.accumulate = true;
  g.a = a.x, g.lda = a.ldx, g.transpose_a = true, g.b = a.g, g.ldb = a.ldg, g.c = a.result, g.ldc = a.ld_result;
  return g;
}

}  // namespace comera::kernels::cuda
