// The product of X^T with a gradient, for an X that is the output of a TT layer (kernels/tt_linear.h) and is computed
// again tile by tile: X is never in memory. It makes the gradient of the left factor of the layer that reads X.
#pragma once

#include "kernels/linear.h"

namespace comera::kernels {

// result += X^T G with X = act(T1 B + b) [K, N], G [K, P] and result [N, P]. The same bytes as those of a
// TtLinearForward with t1_is_given, followed by a Product.
struct TtOutputProduct {
  std::int64_t tokens = 0, rank = 0, in = 0, out = 0;  // K, padded R, N, P
  const void* t1 = nullptr;                            // [K, R] with ld_t1
  std::int64_t ld_t1 = 0;
  const void* right = nullptr;  // B [R, N], contiguous
  const void* bias = nullptr;   // b [N], optional
  Activation activation = Activation::none;
  const void* g = nullptr;
  std::int64_t ldg = 0;
  void* result = nullptr;
  std::int64_t ld_result = 0;
};

// False: Status::unsupported_shape. A larger result needs X in memory.
constexpr bool fits(const TtOutputProduct& a) { return a.in * a.out <= small_product; }

constexpr double flops(const TtOutputProduct& a) {
  return 2.0 * static_cast<double>(a.tokens) * static_cast<double>(a.in) * static_cast<double>(a.rank + a.out);
}

}  // namespace comera::kernels
