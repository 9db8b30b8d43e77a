// result += x^T g for small results with many rows: each group of rows has its own sum, and the sums are added at the
// end. x is taken in contiguous panels of columns, which are copied, restored or computed while the product runs.
#pragma once

#if defined(COMERA_BF16_CALLS)
#include "kernels/cpu/bf16/group_product.h"
#else
#include "kernels/cpu/common/gemm.h"
#include "kernels/cpu/common/token_groups.h"

namespace comera::kernels::COMERA_CPU {

constexpr std::int64_t product_panel = 128;  // columns

struct GroupProductMemory {
  float* part;  // per group: [in, out]

  GroupProductMemory(const Product& a, Workspace& workspace)
      : part(workspace.floats(groups_of(a.tokens) * a.in * a.out)) {}
};

// fill(row, rows, column, columns, block) writes that part of x into block [rows, columns]; at most group_rows rows.
template <class Fill>
void product_by_groups(const Context& context, const Product& a, const GroupProductMemory& memory, Fill fill) {
  const std::int64_t groups = groups_of(a.tokens), size = a.in * a.out;
  parallel_for(context, groups, [&](std::int64_t group) {
    alignas(64) float block[group_rows * product_panel];
    const Range range = part_of(a.tokens, group_rows, groups, group);
    for (std::int64_t j = 0; j < a.in; j += product_panel) {
      const std::int64_t columns = min(product_panel, a.in - j);
      for (std::int64_t row = range.first; row < range.last; row += group_rows) {
        const std::int64_t count = min(group_rows, range.last - row);
        fill(row, count, j, columns, block);
        SmallGemm({columns, a.out, count, columns, a.ldg, a.out, row > range.first, true})(
            block, f32(a.g) + row * a.ldg, memory.part + group * size + j * a.out);
      }
    }
  });
  add_groups(context, a.in, a.out, groups, memory.part, f32(a.result), a.ld_result);
}

}  // namespace comera::kernels::COMERA_CPU
#endif
