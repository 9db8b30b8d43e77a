// Element types on the device. bf16 is the upper half of a float; conversions round to nearest, ties to even.
#pragma once

#include "kernels/cuda/device.h"

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

// Within two units of the last place on the device, where a division costs several times as much.
COMERA_DEVICE float quotient(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fdividef(a, b);
#else
  return a / b;
#endif
}

COMERA_DEVICE float to_float(float x) { return x; }
COMERA_DEVICE float to_float(Bf16 x) { return float_of(static_cast<std::uint32_t>(x.bits) << 16); }

// A NaN keeps its sign and becomes quiet.
COMERA_DEVICE Bf16 to_bf16(float x) {
  const std::uint32_t bits = bits_of(x);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return {static_cast<std::uint16_t>(bits >> 16 | 0x40u)};
  return {static_cast<std::uint16_t>((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16)};
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

// Calls f with a value of the element type of a call's activations and halves: parameters, their gradients, statistics and sums are f32
// in either case.
template <class F>
Status with_element(const Context& context, F&& f) {
  if (context.dtype == DType::f32) return f(float{});
  if (context.dtype == DType::bf16) return f(Bf16{});
  return Status::unsupported_dtype;
}

}  // namespace comera::kernels::cuda
