#include "kernels/cuda/ops.h"
#include "kernels/cuda/sorted_ids.h"
#include "kernels/embedding.h"

namespace comera::kernels::cuda {
namespace {

constexpr unsigned bags_of_block = 8;

// A warp per bag, bound by the bytes of the rows. Word tables are f32 whatever the stream.
template <class T, int lanes>
__global__ void look_up(const EmbeddingForward a) {
  const float* table = static_cast<const float*>(a.table);
  T* y = static_cast<T*>(a.y);
  for (std::int64_t b = static_cast<std::int64_t>(blockIdx.x) * bags_of_block + threadIdx.y; b < a.bags.bags;
       b += static_cast<std::int64_t>(gridDim.x) * bags_of_block) {
    const int first = a.bags.offsets ? a.bags.offsets[b] : static_cast<int>(b), last = a.bags.offsets ? a.bags.offsets[b + 1] : first + 1;
    for (std::int64_t column = threadIdx.x * lanes; column < a.columns; column += warp_size * lanes) {
      float sum[lanes] = {}, row[lanes];
      if (a.accumulate) load_floats<lanes>(y + b * a.columns + column, sum);
      for (int i = first; i < last; ++i) {
        const std::int32_t id = a.bags.id[i];
        if (key_of_id(id, static_cast<int>(a.rows)) == a.rows) {
          for (int j = 0; j < lanes; ++j) sum[j] = NAN;
          continue;
        }
        load_floats<lanes>(table + id * a.columns + column, row);
        for (int j = 0; j < lanes; ++j) sum[j] += row[j];
      }
      store_floats<lanes>(sum, y + b * a.columns + column);
    }
  }
}

std::size_t workspace_bytes(const Context&, const EmbeddingBackward& a) {
  Parts parts;
  FoldMemory(a.bags.ids, a.columns, parts);
  return parts.bytes();
}

Status run(const Context& context, const EmbeddingForward& a) {
  if (!ids_fit(a.bags, a.rows)) return Status::unsupported_shape;
  return with_element(context, [&](auto element) {
    using T = decltype(element);
    const Launch where{grid_for(a.bags.bags, bags_of_block), {warp_size, bags_of_block}};
    const bool aligned = rows_are_aligned<float>(a.table, a.columns) && rows_are_aligned<float>(a.y, a.columns);
    return aligned ? launch(context, where, look_up<T, 4>, a) : launch(context, where, look_up<T, 1>, a);
  });
}

Status run(const Context& context, const EmbeddingBackward& a) {
  if (!ids_fit(a.bags, a.rows)) return Status::unsupported_shape;
  if (a.bags.ids == 0) return Status::ok;
  return with_element(context, [&](auto element) {
    using T = decltype(element);
    Parts parts(context.workspace);
    const FoldMemory memory(a.bags.ids, a.columns, parts);
    const int rows = static_cast<int>(a.rows);
    const Status status = sort_keys(context, a.bags.ids, KeyOfId{a.bags.id, rows}, memory.sort, memory.keys, memory.order);
    if (status != Status::ok) return status;
    const Runs runs{memory.keys, memory.order, static_cast<int>(a.bags.ids), rows, a.columns};
    return fold_runs(context, runs, a.bags, static_cast<const T*>(a.dy), DenseSums{static_cast<float*>(a.d_table), memory.pieces, a.columns},
                     rows_are_aligned<float>(a.d_table, a.columns));
  });
}

}  // namespace

void add_embedding(Backend& b) {
  b.embedding_forward = {"embedding_forward", run, nullptr};
  b.embedding_backward = {"embedding_backward", run, workspace_bytes};
}

}  // namespace comera::kernels::cuda
