// Look-ups in dense tables. A look-up sums a bag of ids given by offsets; a token look-up is a bag of one id.
#pragma once

#include "kernels/types.h"

namespace comera::kernels {

// Bag b sums the rows ids[offsets[b]] .. ids[offsets[b+1] - 1]. Without offsets, bag b is row ids[b].
struct Bags {
  std::int64_t bags = 0;
  std::int64_t ids = 0;  // length of `id`
  const std::int32_t* id = nullptr;
  const std::int32_t* offsets = nullptr;  // [bags + 1], optional
  // Period of repeated bags of one: id[i] == id[i % period], and the first `period` ids are distinct. 0: unknown.
  std::int64_t period = 0;
};

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
