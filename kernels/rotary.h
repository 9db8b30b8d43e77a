// Rotary position embedding (Su et al. 2021, arXiv 2104.09864) in Llama's layout: in a head of size D, features i and i
// + D/2 are rotated by the angle position * frequency(i). The backward is the inverse rotation.
#pragma once

#include "kernels/types.h"

namespace comera::kernels {

// Frequencies: base = theta^(-2i/D), and of it the share s = kept + kept_by_feature i + kept_by_base base, cut to [0,
// 1], stays while the rest is divided by `factor`: base (s + (1 - s) / factor). Models that were trained further on
// longer texts divide the low frequencies so. By default all stays.
struct RotaryAngles {
  double theta = 10000;
  double factor = 1;
  double kept = 1, kept_by_feature = 0, kept_by_base = 0;
  double amplitude = 1;  // of cosines and sines
};

// Computes the cosines and sines of positions 0 .. positions - 1, with angles in double. All layers share one table.
struct RotaryTable {
  std::int64_t positions = 0, head_size = 0;  // P, D (even)
  RotaryAngles angles = {};
  void* cosines = nullptr;  // [P, D/2]
  void* sines = nullptr;    // [P, D/2]
};

// y = rotated x; y may be x.
struct Rotary {
  std::int64_t tokens = 0, heads = 0, head_size = 0;  // K, H, D
  const std::int32_t* positions = nullptr;            // [K], each in [0, P)
  const void* cosines = nullptr;
  const void* sines = nullptr;
  bool inverse = false;     // rotates by the negative angle: the backward
  const void* x = nullptr;  // [K, H * D]
  void* y = nullptr;        // as x
  std::int64_t ld = 0;      // between the rows of x and y; 0: H * D

  constexpr std::int64_t head_at(std::int64_t i) const {  // of head i of all tokens
    return ld == 0 ? i * head_size : i / heads * ld + i % heads * head_size;
  }
};

constexpr double flops(const RotaryTable& a) { return 1.0 * a.positions * a.head_size; }
constexpr double flops(const Rotary& a) { return 3.0 * a.tokens * a.heads * a.head_size; }

}  // namespace comera::kernels
