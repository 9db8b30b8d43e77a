// Row-major matrix products on the device: cuBLASLt on a card (card/gemm.cpp), plain loops in the double
// (on_host/gemm.cpp).
#pragma once

#include "kernels/linear.h"

namespace comera::kernels::cuda {

// c [m, n] = or += a b. a [m, k] or its transpose [k, m], b [k, n] or its transpose [n, k]; ld: distance between stored
// rows. Elements of a and b are of type `in`, of c of type `out`; sums are kept in f32. The order of summation is fixed
// by the shape: split sums are added in the workspace, never by atomics, so that the same call gives the same bits.
// Context::tf32 counts where both factors are f32.
struct Gemm {
  std::int64_t m = 0, n = 0, k = 0;
  const void* a = nullptr;
  std::int64_t lda = 0;
  bool transpose_a = false;
  const void* b = nullptr;
  std::int64_t ldb = 0;
  bool transpose_b = false;
  void* c = nullptr;
  std::int64_t ldc = 0;
  bool accumulate = false;
  DType in = DType::f32, out = DType::f32;
  // Both given: a and b are floats of eight bits (fp8.h), b e4m3 and a e4m3 or e5m2, and the product is times *a_scale
  // *b_scale (device memory). Only for b transposed and a not, n and k multiples of 16, one product.
  const float *a_scale = nullptr, *b_scale = nullptr;
  bool a_is_e5m2 = false;
  bool eight_bits() const { return a_scale != nullptr; }
  // Many of one shape: element i lies i * stride_... elements behind the first.
  std::int64_t batch = 1, stride_a = 0, stride_b = 0, stride_c = 0;
};

// result += x^T g of streams, summed over tokens in f32.
inline Gemm gemm_of(const Context& context, const Product& a) {
  Gemm g;
  g.m = a.in, g.n = a.out, g.k = a.tokens, g.in = context.dtype, g.out = DType::f32, g.accumulate = true;
  g.a = a.x, g.lda = a.ldx, g.transpose_a = true, g.b = a.g, g.ldb = a.ldg, g.c = a.result, g.ldc = a.ld_result;
  return g;
}

// What an op that multiplies asks for, behind the parts of the workspace that are its own: room for the sums of so many
// results in up to 32 parts, as the library splits a product of few results, and never more than its large ways ask
// for.
constexpr std::size_t gemm_workspace(std::int64_t results) {
  constexpr std::size_t most = std::size_t{8} << 20;
  const std::size_t parts = static_cast<std::size_t>(results) * 32 * sizeof(float);
  return parts < most ? (parts + 255) / 256 * 256 : most;
}
constexpr std::size_t workspace_of(const Gemm& g) { return gemm_workspace(g.batch * g.m * g.n); }

// `workspace`: of workspace_of(g) bytes at least, aligned to 256.
Status gemm(const Context& context, const Gemm& g, void* workspace);

}  // namespace comera::kernels::cuda
