// Element types on the device. bf16 is the upper half of a float; conversions round to nearest, ties to even.
#pragma once

#include "kernels/cuda/common/device.h"

namespace comera::kernels::cuda {

struct Bf16 {
  std::uint16_t bits;
};

COMERA_DEVICE std::uint32_t bits_of(float x) {
#ifdef __CUDA_ARCH__
  return __float_as_uint(x);
#else
  std::uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
#endif
}
COMERA_DEVICE float float_of(std::uint32_t bits) {
#ifdef __CUDA_ARCH__
  return __uint_as_float(bits);
#else
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
#endif
}

// Approximations with an error of at most two units in the last place on the device; the exact versions cost several
// times as much. Subnormal numbers become zero there.
COMERA_DEVICE float fast_exp2(float x) {
#ifdef __CUDA_ARCH__
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return exp2f(x);
#endif
}
COMERA_DEVICE float fast_reciprocal(float x) {
#ifdef __CUDA_ARCH__
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return 1.0f / x;
#endif
}

COMERA_DEVICE float to_float(float x) { return x; }
COMERA_DEVICE float to_float(Bf16 x) { return float_of(static_cast<std::uint32_t>(x.bits) << 16); }

// A NaN stays a NaN; its bits may change.
COMERA_DEVICE Bf16 to_bf16(float x) {
#ifdef __CUDA_ARCH__
  Bf16 y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
#else
  const std::uint32_t bits = bits_of(x);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return {static_cast<std::uint16_t>(bits >> 16 | 0x40u)};
  return {static_cast<std::uint16_t>((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16)};
#endif
}

// Two neighbours in one word, in the layout of memory and of the matrix instructions.
COMERA_DEVICE unsigned pair_of(float low, float high) {
#ifdef __CUDA_ARCH__
  unsigned pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
#else
  return static_cast<unsigned>(to_bf16(high).bits) << 16 | to_bf16(low).bits;
#endif
}

template <class T>
COMERA_DEVICE T to_element(float x);
template <>
COMERA_DEVICE float to_element<float>(float x) {
  return x;
}
template <>
COMERA_DEVICE Bf16 to_element<Bf16>(float x) {
  return to_bf16(x);
}

// Calls f with a value of the element type of activations and of left and right factors. Parameters, their gradients,
// statistics and sums are always f32.
template <class F>
Status with_element(const Context& context, F&& f) {
  if (context.dtype == DType::f32) return f(float{});
  if (context.dtype == DType::bf16) return f(Bf16{});
  return Status::unsupported_dtype;
}

}  // namespace comera::kernels::cuda
