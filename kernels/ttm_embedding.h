// Look-ups in TTM tables, computed from the merged left and right factor.
#pragma once

#include "kernels/bags.h"
#include "kernels/ttm_merge.h"

namespace comera::kernels {

// y[b] = or += sum of the rows of bag b. The row of equal ids is computed once.
struct TtmForward {
  Bags bags;
  const TtmTable* table = nullptr;
  void* y = nullptr;  // [bags, N]
  bool accumulate = false;
};
// Accumulates d_left and d_right of the table. Gradients of equal ids are added in order of position, rows of the
// factors in order of id.
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
