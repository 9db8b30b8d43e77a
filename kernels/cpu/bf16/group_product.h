// result += x^T g of bf16 factors for small results with many rows: each group of rows has its own sum, and the sums
// are added at the end. The words of x (pairs.h) are packed in panels of columns while the product runs.
#pragma once

#include "kernels/cpu/bf16/pair_product.h"
#include "kernels/cpu/common/tiles.h"
#include "kernels/cpu/common/token_groups.h"

namespace comera::kernels::COMERA_CPU {

constexpr std::int64_t product_panel = largest_tile;  // columns
constexpr std::int64_t product_rows = 128;            // at once

struct GroupProductMemory {
  std::int64_t section;
  float* part;  // per group: [section, out]
  Word* right;  // words of g

  GroupProductMemory(const Product& a, Workspace& workspace)
      : section(section_of(a, product_panel)),
        part(workspace.floats(groups_of(a.tokens) * section * a.out)),
        right(reinterpret_cast<Word*>(workspace.floats(pairs_of(a.tokens) * a.out))) {}
};

// pack(row, rows, column, columns, words) packs that part of x into words [pairs, columns].
template <class Pack>
void product_of_words(const Context& context, const Product& a, const GroupProductMemory& memory, Pack pack) {
  const std::int64_t groups = groups_of(a.tokens);
  for (std::int64_t first = 0; first < a.in; first += memory.section) {
    const std::int64_t last = min(first + memory.section, a.in), size = (last - first) * a.out;
    parallel_for(context, groups, [&](std::int64_t group) {
      alignas(64) Word x[product_rows / 2 * product_panel];
      const Range range = part_of(a.tokens, group_rows, groups, group);
      Word* const g = memory.right + range.first / 2 * a.out;
      if (first == 0) pack_pairs(range.last - range.first, a.out, elements(a.g) + range.first * a.ldg, a.ldg, g, a.out);
      for (std::int64_t j = first; j < last; j += product_panel) {
        const std::int64_t columns = min(product_panel, last - j);
        for (std::int64_t row = range.first; row < range.last; row += product_rows) {
          const std::int64_t rows = min(product_rows, range.last - row);
          pack(row, rows, j, columns, x);
          multiply_pairs({columns, a.out, pairs_of(rows), a.out, a.out, row > range.first}, columns_of(x, columns),
                         g + (row - range.first) / 2 * a.out, memory.part + group * size + (j - first) * a.out);
        }
      }
    });
    add_groups(context, last - first, a.out, groups, memory.part, f32(a.result) + first * a.ld_result, a.ld_result);
  }
}

// fill(row, rows, column, columns, block) writes that part of x into block [rows, columns].
template <class Fill>
void product_by_groups(const Context& context, const Product& a, const GroupProductMemory& memory, Fill fill) {
  product_of_words(context, a, memory,
                   [&](std::int64_t row, std::int64_t rows, std::int64_t j, std::int64_t columns, Word* words) {
                     alignas(64) Bf16 block[product_rows * product_panel];
                     fill(row, rows, j, columns, block);
                     pack_pairs(rows, columns, block, columns, words, columns);
                   });
}

}  // namespace comera::kernels::COMERA_CPU
