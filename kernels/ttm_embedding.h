// Look-ups in TTM tables, from the merged halves.
#pragma once

#include "kernels/embedding.h"
#include "kernels/ttm_merge.h"

namespace comera::kernels {

// y[b] = or += sum of rows of bag b, from the halves. Equal ids are computed once.
struct TtmForward {
  Bags bags;
  const TtmTable* table = nullptr;
  void* y = nullptr;  // [bags, N]
  bool accumulate = false;
};
// d_left, d_right of the table +=. Gradients of equal ids are added in the order of position, halves' rows in the order
// of id.
struct TtmBackward {
  Bags bags;
  const TtmTable* table = nullptr;
  const void* dy = nullptr;
  void* d_left = nullptr;
  void* d_right = nullptr;
};

constexpr double ttm_row_flops(const TtmTable& t) { return 2.0 * left_columns(t) * right_columns(t) * t.ranks[t.cut]; }
constexpr double flops(const TtmForward& a) { return a.bags.ids * ttm_row_flops(*a.table); }
constexpr double flops(const TtmBackward& a) { return 2 * a.bags.ids * ttm_row_flops(*a.table); }

}  // namespace comera::kernels
