// Product with numbers that are restored from codes: panels are restored in place of a copy.
#include "kernels/code_product.h"

#include "kernels/cpu/common/group_lanes.h"
#include "kernels/cpu/common/group_product.h"
#include "kernels/cpu/ops.h"

namespace comera::kernels::COMERA_CPU {
namespace {

Product product_of(const CodeProduct& a) {
  return {.tokens = a.shape.rows,
          .in = a.shape.columns,
          .out = a.out,
          .g = a.g,
          .ldg = a.ldg,
          .result = a.result,
          .ld_result = a.ld_result};
}

std::size_t workspace_bytes(const Context&, const CodeProduct& a) {
  if (!fits(a)) return 0;
  Workspace counter(nullptr);
  GroupProductMemory(product_of(a), counter);
  return counter.used();
}

Status run(const Context& context, const CodeProduct& a) {
  if (context.dtype != element_type) return Status::unsupported_dtype;
  if (!fits(a)) return Status::unsupported_shape;
  if (context.workspace_bytes < workspace_bytes(context, a)) return Status::workspace_too_small;
  if (a.shape.rows == 0) return Status::ok;
  Workspace workspace(context.workspace);
  const Product product = product_of(a);
  product_by_groups(context, product, GroupProductMemory(product, workspace),
                    [&](std::int64_t row, std::int64_t rows, std::int64_t j, std::int64_t columns, Element* block) {
                      for (std::int64_t i = 0; i < rows; ++i)
                        restore_columns(a.shape, a.codes, a.ranges, row + i, j, columns, block + i * columns);
                    });
  return Status::ok;
}

}  // namespace

void bind(Op<CodeProduct>& op) { op.run = run, op.workspace_bytes = workspace_bytes; }

}  // namespace comera::kernels::COMERA_CPU
