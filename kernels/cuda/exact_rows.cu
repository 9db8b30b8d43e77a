// Exact rows of a compressed table: overwrites the rows of their tokens; the backward splits the gradient.
#include "kernels/cuda/common/sorted_ids.h"
#include "kernels/cuda/ops.h"
#include "kernels/exact_rows.h"

namespace comera::kernels::cuda {
namespace {

constexpr unsigned tokens_of_block = 8;

// Index of the token's exact row; ids.rows if it has none.
COMERA_DEVICE int row_of(const ExactIds& ids, std::int64_t token) {
  const int rows = static_cast<int>(ids.rows), at = keys_below(ids.row_ids, rows, ids.id[token]);
  return at < rows && ids.row_ids[at] == ids.id[token] ? at : rows;
}

// One warp per token. Exact rows are f32 for every activation dtype, like word tables.
template <class T, int lanes>
__global__ void overwrite(const ExactRowsForward a) {
  begin_kernel();
  const ExactIds& ids = a.ids;
  for (std::int64_t k = static_cast<std::int64_t>(blockIdx.x) * tokens_of_block + threadIdx.y; k < ids.tokens;
       k += static_cast<std::int64_t>(gridDim.x) * tokens_of_block) {
    const int row = row_of(ids, k);
    if (row == ids.rows) continue;
    for (std::int64_t column = threadIdx.x * lanes; column < ids.columns; column += warp_size * lanes) {
      float value[lanes];
      load_floats<lanes>(static_cast<const float*>(a.rows) + row * ids.columns + column, value);
      store_floats<lanes>(value, static_cast<T*>(a.y) + k * ids.columns + column);
    }
  }
}

template <class T, int lanes>
__global__ void mask_chain(const ExactRowsBackward a) {
  begin_kernel();
  const ExactIds& ids = a.ids;
  for (std::int64_t k = static_cast<std::int64_t>(blockIdx.x) * tokens_of_block + threadIdx.y; k < ids.tokens;
       k += static_cast<std::int64_t>(gridDim.x) * tokens_of_block) {
    const bool exact = row_of(ids, k) != ids.rows;
    for (std::int64_t column = threadIdx.x * lanes; column < ids.columns; column += warp_size * lanes) {
      float value[lanes] = {};
      if (!exact) load_floats<lanes>(static_cast<const T*>(a.dy) + k * ids.columns + column, value);
      store_floats<lanes>(value, static_cast<T*>(a.d_chain) + k * ids.columns + column);
    }
  }
}

// Tokens without an exact row are sorted behind all others, and the sums skip them.
struct KeyOfRow {
  ExactIds ids;
  COMERA_DEVICE int operator()(int i) const { return row_of(ids, i); }
};

std::size_t workspace_bytes(const Context&, const ExactRowsBackward& a) {
  Parts parts;
  FoldMemory(a.ids.tokens, a.ids.columns, parts);
  return parts.bytes();
}

Bags bags_of(const ExactIds& ids) { return {ids.tokens, ids.tokens, ids.id, nullptr}; }
Launch launch_of(const ExactIds& ids) { return {grid_for(ids.tokens, tokens_of_block), {warp_size, tokens_of_block}}; }

Status run(const Context& context, const ExactRowsForward& a) {
  if (!ids_fit(bags_of(a.ids), a.ids.rows)) return Status::unsupported_shape;
  return with_element(context, [&](auto element) {
    using T = decltype(element);
    const bool aligned = rows_are_aligned<float>(a.rows, a.ids.columns) && rows_are_aligned<float>(a.y, a.ids.columns);
    return aligned ? launch(context, launch_of(a.ids), overwrite<T, 4>, a)
                   : launch(context, launch_of(a.ids), overwrite<T, 1>, a);
  });
}

Status run(const Context& context, const ExactRowsBackward& a) {
  if (!ids_fit(bags_of(a.ids), a.ids.rows)) return Status::unsupported_shape;
  if (a.ids.tokens == 0) return Status::ok;
  return with_element(context, [&](auto element) {
    using T = decltype(element);
    const bool aligned =
        rows_are_aligned<float>(a.dy, a.ids.columns) && rows_are_aligned<float>(a.d_chain, a.ids.columns);
    Status status = aligned ? launch(context, launch_of(a.ids), mask_chain<T, 4>, a)
                            : launch(context, launch_of(a.ids), mask_chain<T, 1>, a);
    if (status != Status::ok) return status;
    Parts parts(context.workspace);
    const FoldMemory memory(a.ids.tokens, a.ids.columns, parts);
    status = sort_keys(context, a.ids.tokens, KeyOfRow{a.ids}, memory.sort, memory.keys, memory.order);
    if (status != Status::ok) return status;
    const Runs runs{memory.keys, memory.order, static_cast<int>(a.ids.tokens), static_cast<int>(a.ids.rows),
                    a.ids.columns};
    return fold_runs(context, runs, bags_of(a.ids), static_cast<const T*>(a.dy),
                     DenseSums{static_cast<float*>(a.d_rows), memory.pieces, a.ids.columns},
                     rows_are_aligned<float>(a.d_rows, a.ids.columns));
  });
}

}  // namespace

void bind(Op<ExactRowsForward>& op) { op.run = run; }
void bind(Op<ExactRowsBackward>& op) { op.run = run, op.workspace_bytes = workspace_bytes; }

}  // namespace comera::kernels::cuda
