// The emulator's matrix products: plain loops that round as the library does.
#include "kernels/cuda/common/gemm.h"

#include "kernels/cuda/common/fp8.h"
#include "kernels/cuda/emulator/queue.h"

namespace comera::kernels::cuda {
namespace {

// Rounds to 10 fraction bits, to nearest, ties to even.
float to_tf32(float x) {
  const std::uint32_t bits = bits_of(x);
  if ((bits & 0x7F800000u) == 0x7F800000u) return x;
  return float_of((bits + 0xFFFu + (bits >> 13 & 1u)) & ~0x1FFFu);
}

float load(const void* data, DType dtype, std::int64_t i) {
  return dtype == DType::bf16 ? to_float(static_cast<const Bf16*>(data)[i]) : static_cast<const float*>(data)[i];
}

float factor(const void* data, DType dtype, std::int64_t i, bool tf32) {
  const float x = load(data, dtype, i);
  return tf32 && dtype == DType::f32 ? to_tf32(x) : x;
}
float factor_a(const Gemm& g, std::int64_t i, bool tf32) {
  if (!g.eight_bits()) return factor(g.a, g.in, i, tf32);
  const std::uint8_t code = static_cast<const std::uint8_t*>(g.a)[i];
  return g.a_is_e5m2 ? from_fp8<E5m2>(code) : from_fp8<E4m3>(code);
}
float factor_b(const Gemm& g, std::int64_t i, bool tf32) {
  return g.eight_bits() ? from_fp8<E4m3>(static_cast<const std::uint8_t*>(g.b)[i]) : factor(g.b, g.in, i, tf32);
}

void store(void* data, DType dtype, std::int64_t i, float value) {
  if (dtype == DType::bf16) {
    static_cast<Bf16*>(data)[i] = to_bf16(value);
  } else {
    static_cast<float*>(data)[i] = value;
  }
}

void multiply(const Gemm& g, std::int64_t batch, bool tf32) {
  for (std::int64_t i = 0; i < g.m; ++i)
    for (std::int64_t j = 0; j < g.n; ++j) {
      const std::int64_t at = batch * g.stride_c + i * g.ldc + j;
      float sum = 0;
      for (std::int64_t l = 0; l < g.k; ++l)
        sum += factor_a(g, batch * g.stride_a + (g.transpose_a ? l * g.lda + i : i * g.lda + l), tf32) *
               factor_b(g, batch * g.stride_b + (g.transpose_b ? j * g.ldb + l : l * g.ldb + j), tf32);
      if (g.eight_bits()) sum *= *g.a_scale * *g.b_scale;
      store(g.c, g.out, at, g.accumulate ? sum + load(g.c, g.out, at) : sum);
    }
}

}  // namespace

// Overwrites part of the workspace, as the library on a GPU may do, so that tests detect callers that keep data there.
Status gemm(const Context& context, const Gemm& g, void* workspace) {
  if (g.eight_bits() && g.m == 1)
    return Status::unsupported_shape;  // the library may lack an algorithm for a valid shape
  if (g.eight_bits() && (!g.transpose_b || g.transpose_a || g.n % 16 != 0 || g.k % 16 != 0 || g.batch != 1))
    return Status::unsupported_shape;
  if (const Status ready = emulator::load(reinterpret_cast<const void*>(multiply)); ready != Status::ok) return ready;
  return emulator::enqueue(context, [g, workspace, tf32 = context.tf32] {
    if (const std::size_t bytes = workspace_of(g); bytes > 0) {
      auto* words = static_cast<unsigned*>(workspace);
      words[0] = words[bytes / sizeof(unsigned) - 1] = 0xFFFFFFFFu;
    }
    for (std::int64_t batch = 0; batch < g.batch; ++batch) multiply(g, batch, tf32);
  });
}

}  // namespace comera::kernels::cuda
