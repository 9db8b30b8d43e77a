// AdamW with moments of 8 bits (Dettmers et al. 2022, "8-bit Optimizers via Block-wise Quantization", arXiv
// 2110.02861).
//
// A moment is a code per element and the largest magnitude of each block of 256 elements. The dynamic code books have
// seven decades below 1; decade i has 2^i (signed, first moment) or 2^(i+1) (unsigned, second moment) equal intervals,
// each represented by its middle, and beside them 0 and 1. A code that would turn a negative moment into 0 is the
// smallest negative one, so that its sign stays.
//
// All arithmetic is in float with explicit multiply-adds, so that every backend gives the same bits.
#pragma once

#include "kernels/optimizer.h"

namespace comera::kernels {

constexpr std::int64_t adamw8_block = 256;
constexpr std::int64_t adamw8_blocks(std::int64_t count) { return (count + adamw8_block - 1) / adamw8_block; }

// The value of a code. Codes rise with their values: signed ones from -0.993 over 0 (127), unsigned ones from 0, to 1.
COMERA_HD constexpr float code_value(int code, bool is_signed) {
  const int zero = is_signed ? 127 : 0;
  if (code == 255) return 1;
  if (code < zero) return -code_value(2 * zero - code, is_signed);
  if (code == zero) return 0;
  int first = zero + 1, intervals = is_signed ? 1 : 2;  // of the decade
  double size = 1e-6;
  for (; code >= first + intervals; intervals *= 2, size *= 10) first += intervals;
  return static_cast<float>(size * (0.1 + 0.9 * (code - first + 0.5) / intervals));
}

// The value that separates a code from the next one.
COMERA_HD constexpr float code_middle(int code, bool is_signed) {
  return code == 255 ? 2.0f : 0.5f * (code_value(code, is_signed) + code_value(code + 1, is_signed));
}

struct CodeBook {
  float value[256] = {}, middle[256] = {};
};

constexpr CodeBook make_code_book(bool is_signed) {
  CodeBook book;
  for (int code = 0; code < 256; ++code)
    book.value[code] = code_value(code, is_signed), book.middle[code] = code_middle(code, is_signed);
  return book;
}

struct Adamw8Tensor {
  std::int64_t count = 0;
  void* value = nullptr;           // f32
  const void* gradient = nullptr;  // f32
  std::uint8_t* codes1 = nullptr;  // [count], signed
  std::uint8_t* codes2 = nullptr;  // [count], unsigned
  float* largest1 = nullptr;       // [blocks]
  float* largest2 = nullptr;       // [blocks]
  const AdamwScalars* scalars = nullptr;
};

// The update of kernels/optimizer.h for each element, with m and v from codes and back. In memory of zeros both moments
// are 0. Changes nothing if scalars->finite is 0.
struct Adamw8 {
  const Adamw8Tensor* tensors = nullptr;  // host memory
  int count = 0;
  const StepScalars* scalars = nullptr;
};

constexpr double flops(const Adamw8& a) {
  double sum = 0;
  for (int i = 0; i < a.count; ++i) sum += 14.0 * static_cast<double>(a.tensors[i].count);
  return sum;
}

// The nearest code of moment / largest.
COMERA_HD inline std::uint8_t code_of(const float* middle, float moment, float largest, bool is_signed) {
  const float x = largest > 0 ? moment / largest : 0.0f;
  int code = 0;
  for (int step = 128; step > 0; step /= 2)
    if (x > middle[code + step - 1]) code += step;
  constexpr int zero = 127;
  return static_cast<std::uint8_t>(is_signed && code == zero && moment < 0 ? zero - 1 : code);
}

}  // namespace comera::kernels
