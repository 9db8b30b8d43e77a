// Row-major matrix products on the device: cuBLASLt on a GPU (gpu/gemm.cpp), plain loops in the emulator
// (emulator/gemm.cpp).
#pragma once

#include "kernels/types.h"

namespace comera::kernels::cuda {

// c [m, n] = a b or c += a b. a is [m, k] or transposed [k, m]; b is [k, n] or transposed [n, k]; ld is the distance
// between stored rows. a and b have elements of type `in`, c of type `out`; sums are f32. The shape fixes the order of
// summation: split sums are added in the workspace, never by atomics, so the same call gives the same bits.
// Context::tf32 applies if both factors are f32.
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
  // If both are set: a and b are 8-bit floats (fp8.h), b is e4m3 and a is e4m3 or e5m2, and the product is multiplied
  // by *a_scale *b_scale (device memory). Requires b transposed, a not transposed, n and k multiples of 16, and batch
  // = 1.
  const float *a_scale = nullptr, *b_scale = nullptr;
  bool a_is_e5m2 = false;
  bool eight_bits() const { return a_scale != nullptr; }
  // A batch of products of one shape: matrix i begins i * stride_... elements after the first.
  std::int64_t batch = 1, stride_a = 0, stride_b = 0, stride_c = 0;
};

// Workspace of an op that calls gemm, in addition to its own parts: the sums of all results in up to 32 parts, because
// the library splits a product with few results. The limit is the workspace of its large algorithms.
constexpr std::size_t gemm_workspace(std::int64_t results) {
  constexpr std::size_t most = std::size_t{8} << 20;
  const std::size_t parts = static_cast<std::size_t>(results) * 32 * sizeof(float);
  return parts < most ? (parts + 255) / 256 * 256 : most;
}
constexpr std::size_t workspace_of(const Gemm& g) { return gemm_workspace(g.batch * g.m * g.n); }

// `workspace` has at least workspace_of(g) bytes and is aligned to 256.
Status gemm(const Context& context, const Gemm& g, void* workspace);

}  // namespace comera::kernels::cuda
