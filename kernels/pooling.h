// Pools the token vectors of a sequence into one vector: the mean over the tokens, or the first token. Optionally
// scales the result to length 1 (sentence embeddings: Reimers and Gurevych 2019, arXiv 1908.10084, section 3).
#pragma once

#include "kernels/types.h"

namespace comera::kernels {

constexpr double smallest_norm = 1e-12;  // lower limit for the divisor |p_b|

// p_b = mean of the rows x_b0 .. x_b(lengths[b] - 1), or x_b0; y_b = p_b, or p_b / max(|p_b|, smallest_norm).
struct PoolForward {
  Pooling pooling = Pooling::mean;
  bool normalise = false;
  std::int64_t sequences = 0, length = 0, columns = 0;  // B, T, N
  const std::int32_t* lengths = nullptr;                // [B], 1 .. T
  const void* x = nullptr;                              // [B*T, N]
  void* y = nullptr;                                    // [B, N]
  void* norm = nullptr;                                 // [B], the divisor of p_b; written if `normalise` is set
};
// dx is overwritten, with zeros on padding. With y = p / n: dp = (dy - y (y . dy)) / n.
struct PoolBackward {
  Pooling pooling = Pooling::mean;
  bool normalise = false;
  std::int64_t sequences = 0, length = 0, columns = 0;
  const std::int32_t* lengths = nullptr;
  const void* y = nullptr;     // read if `normalise` is set
  const void* norm = nullptr;  // read if `normalise` is set
  const void* dy = nullptr;    // [B, N]
  void* dx = nullptr;          // [B*T, N]
};

constexpr double flops(const PoolForward& a) {
  return 1.0 * a.sequences * a.columns * ((a.pooling == Pooling::mean ? a.length : 0) + 3);
}
constexpr double flops(const PoolBackward& a) { return 5.0 * a.sequences * a.columns; }

}  // namespace comera::kernels
