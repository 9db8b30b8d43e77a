// Copies of activations for the backward in fewer bits.
//
// 16 bits: bf16, rounded to nearest, ties to even; |x - x^| <= 2^-8 |x|. No ranges.
//
// 8 and 4 bits: integers (Mesa: Pan et al. 2021, "Mesa: A Memory-saving Training Framework for Transformers"; here with
// one range per token and group of columns instead of running ranges, so nothing wraps).
// A group is 64 neighbouring columns of a row; the last group of a row may be shorter. With l = 2^bits - 1 levels,
//   least = min x rounded down to bf16, step = (max x - least) / l rounded up to bf16,
//   code = floor((x - least) / step + u) within [0, l], restored x^ = least + step * code,
// u = 1/2 (to nearest: |x - x^| <= step / 2, but for rounding) or uniform in (0, 1) (stochastic: E x^ = x to 2^-17
// step).
#pragma once

#include <cstring>

#include "kernels/philox.h"
#include "kernels/types.h"

namespace comera::kernels {

constexpr std::int64_t code_group = 64;

struct GroupCodes {
  std::int64_t rows = 0, columns = 0;  // K, N
  int bits = 8;                        // 16, 8, or 4 with two codes per byte, the even column in the low half

  COMERA_HD bool has_ranges() const { return bits < 16; }
  COMERA_HD std::int64_t groups() const { return (columns + code_group - 1) / code_group; }  // of a row
  COMERA_HD std::int64_t row_bytes() const { return bits == 4 ? (columns + 1) / 2 : columns * bits / 8; }
};

// Numbers that are kept as codes, for ops that restore them where they read them.
struct CodedRows {
  GroupCodes shape;
  const std::uint8_t* codes = nullptr;
  const std::uint16_t* ranges = nullptr;
};

struct GroupQuantise {
  GroupCodes shape;
  const void* x = nullptr;          // [K, N]
  std::uint8_t* codes = nullptr;    // [K, row_bytes]
  std::uint16_t* ranges = nullptr;  // [K, groups, 2] bf16: least, step; not read for 16 bits
  // Stochastic rounding; null: to nearest. Philox with the key of (seed, step) and the counter {site, low32(row),
  // high32(row), column / 8} gives 16 bits per element. 16-bit codes are rounded to nearest.
  const StepScalars* scalars = nullptr;
  std::uint32_t site = 0;
};

struct GroupRestore {
  GroupCodes shape;
  const std::uint8_t* codes = nullptr;
  const std::uint16_t* ranges = nullptr;
  void* x = nullptr;  // [K, N]
};

constexpr double flops(const GroupQuantise&) { return 0; }
constexpr double flops(const GroupRestore&) { return 0; }

COMERA_HD inline float bf16_value(std::uint16_t bits) {
  const std::uint32_t word = static_cast<std::uint32_t>(bits) << 16;
  float value = 0;
  std::memcpy(&value, &word, sizeof value);
  return value;
}

// The nearest bf16, ties to even; NaN stays NaN.
COMERA_HD inline std::uint16_t bf16_nearest(float x) {
  std::uint32_t word = 0;
  std::memcpy(&word, &x, sizeof word);
  const bool nan = (word & 0x7FFFFFFFu) > 0x7F800000u;
  return static_cast<std::uint16_t>((nan ? word | 0x400000u : word + 0x7FFFu + (word >> 16 & 1u)) >> 16);
}

// The nearest bf16 that is not above x, or not below it.
COMERA_HD inline std::uint16_t bf16_beside(float x, bool above) {
  std::uint32_t word = 0;
  std::memcpy(&word, &x, sizeof word);
  const bool negative = word >> 31 != 0, is_cut = (word & 0xFFFFu) != 0;
  return static_cast<std::uint16_t>((word >> 16) + (is_cut && negative != above ? 1u : 0u));
}

// Subnormal numbers as zero: backends may flush them, and the inverse of a subnormal step is not finite.
COMERA_HD constexpr std::uint16_t flushed(std::uint16_t bf16) {
  return (bf16 & 0x7F80u) != 0 ? bf16 : std::uint16_t{0};
}

// The range of a group, as stored and as a multiplier.
struct GroupRange {
  std::uint16_t least_bits, step_bits;
  float least, inverse;  // 1 / step; 0 if all elements are equal to least

  COMERA_HD GroupRange(float minimum, float maximum, int bits) {
    least_bits = flushed(bf16_beside(minimum, false));
    least = bf16_value(least_bits);
    step_bits = flushed(bf16_beside((maximum - least) / static_cast<float>((1 << bits) - 1), true));
    inverse = step_bits != 0 ? 1 / bf16_value(step_bits) : 0;
  }
};

// Random number in (0, 1) of an element.
COMERA_HD inline float rounding_offset(const PhiloxBlock& block, std::int64_t column) {
  return (static_cast<float>(lane16(block, static_cast<std::uint32_t>(column % 8))) + 0.5f) * 0x1p-16f;
}
COMERA_HD inline PhiloxBlock rounding_block(const StepScalars& scalars, std::uint32_t site, std::int64_t row,
                                            std::int64_t column) {
  return philox4x32_10({{site, static_cast<std::uint32_t>(row), static_cast<std::uint32_t>(row >> 32),
                         static_cast<std::uint32_t>(column / 8)}},
                       step_key(scalars.seed, scalars.step));
}

}  // namespace comera::kernels
