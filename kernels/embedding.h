// Look-ups in dense tables. A look-up sums a bag of ids given by offsets; a token look-up is a bag of one id.
#pragma once

#include "kernels/bags.h"

namespace comera::kernels {

// y[b] = or += sum of the rows of bag b. table [V, N].
struct EmbeddingForward {
  Bags bags;
  std::int64_t rows = 0, columns = 0;  // V, N
  const void* table = nullptr;
  void* y = nullptr;  // [bags, N]
  bool accumulate = false;
};
// d_table is accumulated. Gradients of equal ids are added in an order that depends on the shape alone.
struct EmbeddingBackward {
  Bags bags;
  std::int64_t rows = 0, columns = 0;
  const void* dy = nullptr;
  void* d_table = nullptr;
};

constexpr double flops(const EmbeddingForward&) { return 0; }
constexpr double flops(const EmbeddingBackward& a) { return static_cast<double>(a.bags.ids) * a.columns; }

}  // namespace comera::kernels
