// Rotary position embedding (Su et al. 2021, arXiv 2104.09864) in Llama's layout: in a head of size D, features i and i
// + D/2 are rotated by the angle position * theta^(-2i/D). The backward is the inverse rotation.
#pragma once

#include "kernels/types.h"

namespace comera::kernels {

// Computes the cosines and sines of positions 0 .. positions - 1, with angles in double. All layers share one table.
struct RotaryTable {
  std::int64_t positions = 0, head_size = 0;  // P, D (even)
  double theta = 10000;
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
  const void* x = nullptr;  // [K, H * D], contiguous, as y
  void* y = nullptr;
};

constexpr double flops(const RotaryTable& a) { return 1.0 * a.positions * a.head_size; }
constexpr double flops(const Rotary& a) { return 3.0 * a.tokens * a.heads * a.head_size; }

}  // namespace comera::kernels
