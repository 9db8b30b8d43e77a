// One direction for groups of inputs (VeLoRA: Miles et al. 2024, arXiv 2405.17991): the M * G inputs of a token are cut
// into G groups of M, of which only the products with a unit vector v are kept, z = x v [K, G] (a LinearForward with
// one output on the groups as rows). The weight gradient x^T g ~ (z v^T)^T g is then v (z^T g), group by group.
#pragma once

#include "kernels/types.h"

namespace comera::kernels {

// v = mean of the rows of x, divided by its length. Does nothing if v has an entry that is not zero, so v comes from
// the first call in a training. A mean of length zero, or one that is not finite, leaves v at zero.
struct DirectionAverage {
  std::int64_t rows = 0, size = 0;  // K * G, M
  const void* x = nullptr;          // [rows, M]
  void* v = nullptr;                // [M], of the parameters' type
};

// result[group * M + j] += scale v[j] t[group], all of the parameters' type.
struct DirectionLift {
  std::int64_t groups = 0, size = 0, out = 0;  // G, M, N
  double scale = 1;
  const void* v = nullptr;  // [M]
  const void* t = nullptr;  // [G, N]
  void* result = nullptr;   // [G * M, N]
  std::int64_t ld_result = 0;
};

constexpr double flops(const DirectionAverage&) { return 0; }  // once per training
constexpr double flops(const DirectionLift& a) { return 2.0 * a.groups * a.size * a.out; }

}  // namespace comera::kernels
