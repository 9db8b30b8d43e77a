// result += x^T g for small results with many rows: each group of rows has its own sum, and the sums are added at the
// end, section by section of the columns of x, so that the sums stay small. x is taken in contiguous panels of columns,
// which are copied, restored or computed while the product runs.
#pragma once

#if defined(COMERA_BF16_CALLS)
#include "kernels/cpu/bf16/group_product.h"
#else
#include "kernels/cpu/common/gemm.h"
#include "kernels/cpu/common/token_groups.h"

namespace comera::kernels::COMERA_CPU {

constexpr std::int64_t product_panel = 128;  // columns

struct GroupProductMemory {
  std::int64_t section;
  float* part;  // per group: [section, out]

  GroupProductMemory(const Product& a, Workspace& workspace)
      : section(section_of(a, product_panel)), part(workspace.floats(groups_of(a.tokens) * section * a.out)) {}
};

// fill(row, rows, column, columns, block) writes that part of x into block [rows, columns]; at most group_rows rows.
template <class Fill>
void product_by_groups(const Context& context, const Product& a, const GroupProductMemory& memory, Fill fill) {
  const std::int64_t groups = groups_of(a.tokens);
  for (std::int64_t first = 0; first < a.in; first += memory.section) {
    const std::int64_t last = min(first + memory.section, a.in), size = (last - first) * a.out;
    parallel_for(context, groups, [&](std::int64_t group) {
      alignas(64) float block[group_rows * product_panel];
      const Range range = part_of(a.tokens, group_rows, groups, group);
      for (std::int64_t j = first; j < last; j += product_panel) {
        const std::int64_t columns = min(product_panel, last - j);
        for (std::int64_t row = range.first; row < range.last; row += group_rows) {
          const std::int64_t count = min(group_rows, range.last - row);
          fill(row, count, j, columns, block);
          SmallGemm({columns, a.out, count, columns, a.ldg, a.out, row > range.first, true})(
              block, f32(a.g) + row * a.ldg, memory.part + group * size + (j - first) * a.out);
        }
      }
    });
    add_groups(context, last - first, a.out, groups, memory.part, f32(a.result) + first * a.ld_result, a.ld_result);
  }
}

}  // namespace comera::kernels::COMERA_CPU
#endif
