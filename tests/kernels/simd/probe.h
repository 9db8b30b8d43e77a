// Plain functions around kernels/cpu/common/simd.h, one copy per instruction set.
#pragma once

#include <cstdint>

namespace comera::kernels {

enum class SimdFunction {
  exp,
  erf,
  tanh,
  sigmoid,
  complement,
  below,
  gelu,
  gelu_derivative,
  silu,
  silu_derivative,
  tanh_derivative,
  gelu_tanh,
  gelu_tanh_derivative
};

namespace cpu_v3 {
void simd_apply(SimdFunction f, const float* x, float* y, std::int64_t count);
void simd_sums(const float* x, std::int64_t count, float* sum, float* largest, double* squares);
}  // namespace cpu_v3
namespace cpu_v4 {
void simd_apply(SimdFunction f, const float* x, float* y, std::int64_t count);
void simd_sums(const float* x, std::int64_t count, float* sum, float* largest, double* squares);
}  // namespace cpu_v4

}  // namespace comera::kernels
