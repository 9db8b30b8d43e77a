// Product with outputs of a TT layer, which are computed panel by panel while it runs.
#include "kernels/tt_output_product.h"

#include "kernels/cpu/common/activation.h"
#include "kernels/cpu/common/group_product.h"
#include "kernels/cpu/common/tt_panels.h"
#include "kernels/cpu/common/tt_right.h"
#include "kernels/cpu/ops.h"

namespace comera::kernels::COMERA_CPU {
namespace {

Product product_of(const TtOutputProduct& a) {
  return {.tokens = a.tokens,
          .in = a.in,
          .out = a.out,
          .g = a.g,
          .ldg = a.ldg,
          .result = a.result,
          .ld_result = a.ld_result};
}

struct Memory {
  GroupProductMemory product;
  RightFactor right;

  Memory(const TtOutputProduct& a, Workspace& workspace)
      : product(product_of(a), workspace), right(a.right, a.rank, a.in, a.tokens, workspace) {}
};

std::size_t workspace_bytes(const Context&, const TtOutputProduct& a) {
  if (!fits(a)) return 0;
  Workspace counter(nullptr);
  Memory(a, counter);
  return counter.used();
}

// x of some rows and columns into block [rows, columns]. Pieces have the sizes of the forward's, so that x has its
// bits.
void compute_outputs(const TtOutputProduct& a, const RightFactor& right, std::int64_t row, std::int64_t rows,
                     std::int64_t column, std::int64_t columns, Element* block) {
  alignas(64) float sums[tile_rows * panel];
  const std::int64_t step = forward_rows(a.tokens);
  for (std::int64_t i = 0; i < rows; i += step)
    for (std::int64_t j = 0; j < columns; j += panel) {
      const Block size{min(step, rows - i), min(panel, columns - j)};
      right.multiply(size.rows, size.columns, elements(a.t1) + (row + i) * a.ld_t1, a.ld_t1, column + j, sums);
      const float* bias = a.bias ? f32(a.bias) + column + j : nullptr;
      with_activation(a.activation, [&](auto act) {
        finish_rows<decltype(act)>(size, sums, size.columns, bias, nullptr, block + i * columns + j, columns);
      });
    }
}

Status run(const Context& context, const TtOutputProduct& a) {
  if (context.dtype != element_type) return Status::unsupported_dtype;
  if (!fits(a)) return Status::unsupported_shape;
  if (context.workspace_bytes < workspace_bytes(context, a)) return Status::workspace_too_small;
  if (a.tokens == 0) return Status::ok;
  Workspace workspace(context.workspace);
  const Memory memory(a, workspace);
  parallel_for(context, tiles_of(a.in, panel), [&](std::int64_t p) { memory.right.pack(p); });
  product_by_groups(context, product_of(a), memory.product,
                    [&](std::int64_t row, std::int64_t rows, std::int64_t j, std::int64_t columns, Element* block) {
                      compute_outputs(a, memory.right, row, rows, j, columns, block);
                    });
  return Status::ok;
}

}  // namespace

void bind(Op<TtOutputProduct>& op) { op.run = run, op.workspace_bytes = workspace_bytes; }

}  // namespace comera::kernels::COMERA_CPU
