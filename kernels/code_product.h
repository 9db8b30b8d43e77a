// The product of X^T with a gradient, for an X that is kept in fewer bits (kernels/group_codes.h) and is restored tile
// by tile: X is never in memory.
#pragma once

#include "kernels/group_codes.h"
#include "kernels/linear.h"

namespace comera::kernels {

// result += X^T G with X [K, M] restored from codes, G [K, P] and result [M, P]. The same bytes as those of a
// GroupRestore, followed by a Product.
struct CodeProduct {
  GroupCodes shape;  // of X
  const std::uint8_t* codes = nullptr;
  const std::uint16_t* ranges = nullptr;
  std::int64_t out = 0;  // P
  const void* g = nullptr;
  std::int64_t ldg = 0;
  void* result = nullptr;
  std::int64_t ld_result = 0;
};

// False: Status::unsupported_shape. A larger result needs X in memory.
constexpr bool fits(const CodeProduct& a) { return a.shape.columns * a.out <= small_product; }

constexpr double flops(const CodeProduct& a) {
  return 2.0 * static_cast<double>(a.shape.rows) * static_cast<double>(a.shape.columns) * static_cast<double>(a.out);
}

}  // namespace comera::kernels
