// Sums over rows in double precision, for losses. The number of rows fixes the tiles; their sums are added in order.
#pragma once

#include "kernels/cuda/common/reduce.h"

namespace comera::kernels::cuda {

struct Sums {
  double loss = 0, correct = 0;
};

constexpr int sum_threads = 256;
constexpr std::int64_t least_sum_tile = 1024, most_sum_tiles = 1024;

constexpr std::int64_t rows_of_sum_tile(std::int64_t rows) {
  const std::int64_t step = blocks_for(rows, most_sum_tiles);
  return step < least_sum_tile ? least_sum_tile : step;
}
constexpr std::size_t row_sums_workspace(std::int64_t rows) {
  return rows <= least_sum_tile ? 0 : static_cast<std::size_t>(blocks_for(rows, rows_of_sum_tile(rows))) * sizeof(Sums);
}

template <class Term>
__device__ void join_sums(const Term& term, Sums own, Sums* partial) {
  own.loss = sum_of_block(own.loss);
  own.correct = sum_of_block(own.correct);
  if (threadIdx.x != 0) return;
  if (partial)
    partial[blockIdx.x] = own;
  else
    term.finish(own);
}

template <class Term>
__global__ void __launch_bounds__(sum_threads)
    sum_tiles(std::int64_t rows, std::int64_t tile, Term term, Sums* partial) {
  begin_kernel();
  Sums own;
  const std::int64_t begin = blockIdx.x * tile, end = begin + tile < rows ? begin + tile : rows;
  for (std::int64_t row = begin + threadIdx.x; row < end; row += sum_threads) term.add(row, own);
  join_sums(term, own, partial);
}

template <class Term>
__global__ void __launch_bounds__(sum_threads) sum_partials(std::int64_t tiles, Term term, const Sums* partial) {
  begin_kernel();
  Sums own;
  for (std::int64_t i = threadIdx.x; i < tiles; i += sum_threads) {
    own.loss += partial[i].loss;
    own.correct += partial[i].correct;
  }
  join_sums(term, own, nullptr);
}

// Calls term.add(row, sums) for every row, then term.finish(sums) in one thread. Workspace: row_sums_workspace.
template <class Term>
Status sum_rows(const Context& context, std::int64_t rows, const Term& term) {
  if (context.workspace_bytes < row_sums_workspace(rows)) return Status::workspace_too_small;
  const std::int64_t tile = rows_of_sum_tile(rows), tiles = blocks_for(rows, tile);
  auto* partial = tiles > 1 ? static_cast<Sums*>(context.workspace) : nullptr;
  const Status status =
      launch(context, {static_cast<unsigned>(tiles), sum_threads}, sum_tiles<Term>, rows, tile, term, partial);
  if (status != Status::ok || tiles <= 1) return status;
  return launch(context, {1, sum_threads}, sum_partials<Term>, tiles, term, partial);
}

}  // namespace comera::kernels::cuda
