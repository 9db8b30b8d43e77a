// Look-up of dense embedding tables and their gradient.
#include <algorithm>

#include "kernels/cuda/common/column_sums.h"
#include "kernels/cuda/common/sorted_ids.h"
#include "kernels/cuda/ops.h"
#include "kernels/embedding.h"

namespace comera::kernels::cuda {
namespace {

constexpr unsigned bags_of_block = 8;

// One warp per bag; bound by the bytes of the rows. Word tables are f32 for every activation dtype.
template <class T, int lanes>
__global__ void __launch_bounds__(warp_size* bags_of_block) look_up(const EmbeddingForward a) {
  begin_kernel();
  constexpr int ahead = 6, wide = warp_size * lanes;  // vectors of a row that are loaded before they are used
  const float* table = static_cast<const float*>(a.table);
  T* y = static_cast<T*>(a.y);
  for (std::int64_t b = static_cast<std::int64_t>(blockIdx.x) * bags_of_block + threadIdx.y; b < a.bags.bags;
       b += static_cast<std::int64_t>(gridDim.x) * bags_of_block) {
    const int first = a.bags.offsets ? a.bags.offsets[b] : static_cast<int>(b),
              last = a.bags.offsets ? a.bags.offsets[b + 1] : first + 1;
    for (std::int64_t column = threadIdx.x * lanes; column < a.columns; column += ahead * wide) {
      float sum[ahead][lanes] = {}, row[ahead][lanes];
      const auto for_vectors = [&](const auto& use) {
#pragma unroll
        for (int u = 0; u < ahead; ++u)
          if (column + u * wide < a.columns) use(u, column + u * wide);
      };
      if (a.accumulate)
        for_vectors([&](int u, std::int64_t at) { load_floats<lanes>(y + b * a.columns + at, sum[u]); });
      for (int i = first; i < last; ++i) {
        const std::int32_t id = a.bags.id[i];
        if (key_of_id(id, static_cast<int>(a.rows)) == a.rows) {
          for (auto& vector : sum)
            for (float& x : vector) x = NAN;
          continue;
        }
        const float weight = weight_of(a.bags, i);
        for_vectors([&](int u, std::int64_t at) { load_floats<lanes>(table + id * a.columns + at, row[u]); });
        for_vectors([&](int u, std::int64_t) {
          for (int j = 0; j < lanes; ++j) sum[u][j] = fmaf(weight, row[u][j], sum[u][j]);
        });
      }
      for_vectors([&](int u, std::int64_t at) { store_floats<lanes>(sum[u], y + b * a.columns + at); });
    }
  }
}

// Largest number of rows that one thread adds in sequence where ids repeat.
constexpr std::int64_t most_repeats = 256;
bool adds_repeats(const Bags& bags) {
  return bags.period > 0 && !bags.offsets && bags.bags <= most_repeats * bags.period;
}

// Equal ids are `period` apart, so no sort is needed: a block handles one id.
template <class T, int lanes>
__global__ void sum_repeats(const EmbeddingBackward a) {
  begin_kernel();
  constexpr int ahead = 16;  // rows that are loaded before they are added
  const int key = key_of_id(a.bags.id[blockIdx.x], static_cast<int>(a.rows));
  const std::int64_t column = (static_cast<std::int64_t>(blockIdx.y) * fold_threads + threadIdx.x) * lanes,
                     period = a.bags.period;
  if (key == a.rows || column >= a.columns) return;
  const T* const dy = static_cast<const T*>(a.dy) + column;
  float sum[lanes] = {}, next[ahead][lanes];
  for (std::int64_t b = blockIdx.x; b < a.bags.bags; b += ahead * period) {
#pragma unroll
    for (int u = 0; u < ahead; ++u)
      if (b + u * period < a.bags.bags) load_floats<lanes>(dy + (b + u * period) * a.columns, next[u]);
#pragma unroll
    for (int u = 0; u < ahead; ++u)
      for (int j = 0; b + u * period < a.bags.bags && j < lanes; ++j) sum[j] += next[u][j];
  }
  give_run<lanes>(DenseSums{static_cast<float*>(a.d_table), nullptr, a.columns}, 0, key, column, sum);
}

template <class T>
Status add_repeats(const Context& context, const EmbeddingBackward& a, bool aligned) {
  const auto ids = static_cast<unsigned>(a.bags.period < a.bags.bags ? a.bags.period : a.bags.bags);
  const auto over = [&](int lanes) {
    return Launch{{ids, static_cast<unsigned>(blocks_for(a.columns, fold_threads * lanes))}, fold_threads};
  };
  return aligned ? launch(context, over(4), sum_repeats<T, 4>, a) : launch(context, over(1), sum_repeats<T, 1>, a);
}

// Tables of one or two rows, such as segment tables, need no sort either: each block sums the rows of dy for both ids
// over its share of the bags.
bool adds_pairs(const EmbeddingBackward& a) { return a.rows >= 1 && a.rows <= 2 && !a.bags.offsets; }
std::int64_t pair_blocks(const EmbeddingBackward& a) {
  return std::min(blocks_for(a.bags.bags, ids_of_chunk), partial_blocks);
}

template <class T, int lanes>
__global__ void sum_pairs(const EmbeddingBackward a, float* partial) {
  begin_kernel();
  constexpr int ahead = 8;  // rows that are loaded before they are added
  __shared__ int keys[ids_of_chunk];
  const std::int64_t column = (static_cast<std::int64_t>(blockIdx.y) * fold_threads + threadIdx.x) * lanes;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * ids_of_chunk;
  float sum[2][lanes] = {}, next[ahead][lanes];
  for (std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * ids_of_chunk; first < a.bags.bags; first += step) {
    const int some = static_cast<int>(min(static_cast<std::int64_t>(ids_of_chunk), a.bags.bags - first));
    __syncthreads();  // other threads may still read the previous keys
    if (static_cast<int>(threadIdx.x) < some)
      keys[threadIdx.x] = key_of_id(a.bags.id[first + threadIdx.x], static_cast<int>(a.rows));
    __syncthreads();
    const T* const dy = static_cast<const T*>(a.dy) + first * a.columns + column;
    for (int i0 = 0; i0 < some && column < a.columns; i0 += ahead) {
#pragma unroll
      for (int u = 0; u < ahead; ++u)
        if (i0 + u < some) load_floats<lanes>(dy + (i0 + u) * a.columns, next[u]);
#pragma unroll
      for (int u = 0; u < ahead; ++u) {
        const int key = i0 + u < some ? keys[i0 + u] : 2;
#pragma unroll
        for (int j = 0; j < lanes; ++j) {
          if (key == 0) sum[0][j] += next[u][j];
          if (key == 1 && a.rows == 2) sum[1][j] += next[u][j];
        }
      }
    }
  }
  if (column >= a.columns) return;
  float* const to = partial + 2 * blockIdx.x * a.columns + column;
  store_floats<lanes>(sum[0], to);
  store_floats<lanes>(sum[1], to + a.columns);
}

template <class T>
Status add_pairs(const Context& context, const EmbeddingBackward& a, bool aligned) {
  Parts parts(context.workspace);
  float* const partial = parts.take<float>(2 * pair_blocks(a) * a.columns);
  const auto over = [&](int lanes) {
    return Launch{
        {static_cast<unsigned>(pair_blocks(a)), static_cast<unsigned>(blocks_for(a.columns, fold_threads * lanes))},
        fold_threads};
  };
  const Status status = aligned ? launch(context, over(4), sum_pairs<T, 4>, a, partial)
                                : launch(context, over(1), sum_pairs<T, 1>, a, partial);
  if (status != Status::ok) return status;
  auto* const table = static_cast<float*>(a.d_table);
  float* const second = a.rows == 2 ? table + a.columns : nullptr;
  return launch_sums(context, column_sums(pair_blocks(a), a.columns, partial, table, second));
}

std::size_t workspace_bytes(const Context&, const EmbeddingBackward& a) {
  if (adds_repeats(a.bags)) return 0;
  if (adds_pairs(a)) {
    Parts parts;
    parts.take<float>(2 * pair_blocks(a) * a.columns);
    return parts.bytes();
  }
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
  if (a.bags.ids == 0 || a.bags.bags == 0) return Status::ok;
  return with_element(context, [&](auto element) {
    using T = decltype(element);
    const bool aligned = rows_are_aligned<float>(a.d_table, a.columns);
    const bool both_aligned = aligned && rows_are_aligned<T>(a.dy, a.columns);
    if (adds_repeats(a.bags)) return add_repeats<T>(context, a, both_aligned);
    if (adds_pairs(a)) return add_pairs<T>(context, a, both_aligned);
    Parts parts(context.workspace);
    const FoldMemory memory(a.bags.ids, a.columns, parts);
    const int rows = static_cast<int>(a.rows);
    const Status status = sort_keys(context, a.bags.ids, KeyOfId(a.bags, rows), memory.sort, memory.keys, memory.order);
    if (status != Status::ok) return status;
    const Runs runs{memory.keys, memory.order, static_cast<int>(a.bags.ids), rows, a.columns};
    return fold_runs(context, runs, a.bags, static_cast<const T*>(a.dy),
                     DenseSums{static_cast<float*>(a.d_table), memory.pieces, a.columns}, aligned);
  });
}

}  // namespace

void bind(Op<EmbeddingForward>& op) { op.run = run; }
void bind(Op<EmbeddingBackward>& op) { op.run = run, op.workspace_bytes = workspace_bytes; }

}  // namespace comera::kernels::cuda
