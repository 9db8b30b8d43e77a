// Rows of a table that are stored as they are.
#include "kernels/exact_rows.h"

#include <cstring>

#include "kernels/cpu/common/element.h"
#include "kernels/cpu/common/transpose.h"
#include "kernels/cpu/common/workspace.h"
#include "kernels/cpu/ops.h"
#include "kernels/host/thread_pool.h"

namespace comera::kernels::COMERA_CPU {
namespace {

constexpr std::int64_t tokens_of_tile = 32;
constexpr std::int64_t parts = 16;  // tiles of the gradient: each handles the rows with one remainder modulo `parts`

// Returns the exact row of the token, or ids.rows if there is none.
std::int64_t row_of(const ExactIds& ids, std::int64_t token) {
  std::int64_t low = 0, high = ids.rows;
  while (low < high) {
    const std::int64_t middle = (low + high) / 2;
    if (ids.row_ids[middle] < ids.id[token])
      low = middle + 1;
    else
      high = middle;
  }
  return low < ids.rows && ids.row_ids[low] == ids.id[token] ? low : ids.rows;
}

template <class Body>
void for_tokens(const Context& context, std::int64_t tokens, Body body) {
  parallel_for(context, tiles_of(tokens, tokens_of_tile), [&](std::int64_t tile) {
    for (std::int64_t k = tile * tokens_of_tile; k < min(tokens, (tile + 1) * tokens_of_tile); ++k) body(k);
  });
}

Status run(const Context& context, const ExactRowsForward& a) {
  if (context.dtype != element_type) return Status::unsupported_dtype;
  const ExactIds& ids = a.ids;
  for_tokens(context, ids.tokens, [&](std::int64_t k) {
    const std::int64_t row = row_of(ids, k);
    if (row < ids.rows)
      copy_block(1, ids.columns, f32(a.rows) + row * ids.columns, 0, elements(a.y) + k * ids.columns, 0);
  });
  return Status::ok;
}

std::size_t workspace_bytes(const Context&, const ExactRowsBackward& a) {
  Workspace workspace(nullptr);
  workspace.ints(a.ids.tokens);
  return workspace.used();
}

Status run(const Context& context, const ExactRowsBackward& a) {
  if (context.dtype != element_type) return Status::unsupported_dtype;
  if (context.workspace_bytes < workspace_bytes(context, a)) return Status::workspace_too_small;
  const ExactIds& ids = a.ids;
  Workspace workspace(context.workspace);
  std::int32_t* const found = workspace.ints(ids.tokens);
  for_tokens(context, ids.tokens, [&](std::int64_t k) {
    const std::int64_t row = row_of(ids, k);
    found[k] = static_cast<std::int32_t>(row);
    Element* const to = elements(a.d_chain) + k * ids.columns;
    const std::size_t bytes = static_cast<std::size_t>(ids.columns) * sizeof(Element);
    if (row < ids.rows)
      std::memset(to, 0, bytes);
    else
      std::memcpy(to, elements(a.dy) + k * ids.columns, bytes);
  });
  parallel_for(context, parts, [&](std::int64_t part) {
    for (std::int64_t k = 0; k < ids.tokens; ++k) {
      if (found[k] == ids.rows || found[k] % parts != part) continue;
      float* const sum = f32(a.d_rows) + found[k] * ids.columns;
      const Element* const dy = elements(a.dy) + k * ids.columns;
      sweep(0, ids.columns,
            [=](std::int64_t j, auto lanes) { store(sum + j, load(sum + j, lanes) + load(dy + j, lanes), lanes); });
    }
  });
  return Status::ok;
}

}  // namespace

void bind(Op<ExactRowsForward>& op) { op.run = run; }
void bind(Op<ExactRowsBackward>& op) { op.run = run, op.workspace_bytes = workspace_bytes; }

}  // namespace comera::kernels::COMERA_CPU
