// 8-bit floats (Micikevicius et al. 2022, arXiv 2209.05433): e4m3 for activations and weights, e5m2 for gradients. A
// tensor is stored as its numbers times one power of two, the greatest for which no number exceeds the type's largest.
// So the scaling itself is exact.
#pragma once

#include "kernels/cuda/common/element.h"

namespace comera::kernels::cuda {

struct E4m3 {
  static constexpr int fraction = 3, bias = 7, top = 8;  // largest: 1.75 * 2^top = 448; no infinities
};
struct E5m2 {
  static constexpr int fraction = 2, bias = 15, top = 15;  // largest: 57344
};

constexpr std::uint8_t fp8_nan = 0x7F;  // in both types

// An exact power of two, from its exponent bits.
COMERA_DEVICE float power_of_two(int exponent) { return float_of(static_cast<std::uint32_t>(exponent + 127) << 23); }

// Rounds to nearest, ties to even; larger numbers become the largest of the type.
template <class Type>
COMERA_DEVICE std::uint8_t to_fp8(float x) {
  const std::uint32_t bits = bits_of(x), magnitude = bits & 0x7FFFFFFFu;
  const auto sign = static_cast<std::uint8_t>(bits >> 24 & 0x80u);
  if (magnitude > 0x7F800000u) return fp8_nan;
  const std::uint32_t largest = bits_of(1.75f * power_of_two(Type::top)),
                      bounded = magnitude < largest ? magnitude : largest;
  constexpr int dropped = 23 - Type::fraction;
  std::uint32_t code = 0;
  if (bounded < bits_of(power_of_two(1 - Type::bias))) {
    // Subnormal: a multiple of the smallest number. Adding 2^23 rounds it and leaves the integer in the lowest bits.
    code =
        bits_of(float_of(bounded) * power_of_two(Type::bias - 1 + Type::fraction) + 8388608.0f) - bits_of(8388608.0f);
  } else {
    const std::uint32_t rounded = bounded + (1u << (dropped - 1)) - 1 + (bounded >> dropped & 1u);
    code = (rounded >> dropped) - (static_cast<std::uint32_t>(127 - Type::bias) << Type::fraction);
  }
  return static_cast<std::uint8_t>(sign | code);
}

template <class Type>
COMERA_DEVICE float from_fp8(std::uint8_t code) {
  if ((code & 0x7Fu) == fp8_nan) return float_of(0x7FC00000u);
  constexpr std::uint32_t fractions = (1u << Type::fraction) - 1;
  const int exponent = (code & 0x7F) >> Type::fraction;
  const auto fraction = static_cast<float>(code & fractions);
  const float magnitude = exponent == 0 ? fraction * power_of_two(1 - Type::bias - Type::fraction)
                                        : (fraction + static_cast<float>(fractions + 1)) *
                                              power_of_two(exponent - Type::bias - Type::fraction);
  return code & 0x80u ? -magnitude : magnitude;
}

// Scale factor of a tensor, from the bits of its largest magnitude; 1 if that is zero or not finite.
template <class Type>
COMERA_DEVICE float fp8_scale(std::uint32_t largest) {
  if (largest == 0 || largest >= 0x7F800000u) return 1;
  const int exponent = static_cast<int>(largest >> 23) - 127;  // -127 for subnormal numbers
  int shift = Type::top - exponent - ((largest & 0x7FFFFFu) > 0x600000u ? 1 : 0);
  shift = shift > 126 ? 126 : shift < -126 ? -126 : shift;
  return power_of_two(shift);
}

}  // namespace comera::kernels::cuda
