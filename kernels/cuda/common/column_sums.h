// Sums two quantities over many rows for every column, in two launches. Each block of the first launch writes its
// partial sums [2, columns]; the second launch adds them up.
#pragma once

#include "kernels/cuda/common/reduce.h"

namespace comera::kernels::cuda {

// Largest number of blocks in the first launch: an H200 runs this many at once at 768 columns.
constexpr std::int64_t partial_blocks = 384;

// first (and second) += the blocks' sums, partial [blocks, 2, columns]. A block of [32, 32] threads owns 32 columns.
// Each thread adds the sums of every 32nd block in order.
static __global__ void __launch_bounds__(warp_size* warp_size)
    add_partials(std::int64_t blocks, std::int64_t columns, const float* partial, float* first, float* second) {
  begin_kernel();
  __shared__ float sums[warp_size][warp_size + 1];
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * warp_size + threadIdx.x;
  float sum = 0;
  if (column < columns)
#pragma unroll 8
    for (std::int64_t block = threadIdx.y; block < blocks; block += warp_size)
      sum += partial[(2 * block + blockIdx.y) * columns + column];
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  const float joined = sum_of_warp(sums[threadIdx.x][threadIdx.y]);
  const std::int64_t own = static_cast<std::int64_t>(blockIdx.x) * warp_size + threadIdx.y;
  if (threadIdx.x == 0 && own < columns) (blockIdx.y == 0 ? first : second)[own] += joined;
}

// If `second` is null, the second partial sums are not read.
inline Status join_partials(const Context& context, std::int64_t blocks, std::int64_t columns, const float* partial,
                            void* first, void* second) {
  const dim3 grid(grid_for(columns, warp_size), second ? 2 : 1), square(warp_size, warp_size);
  return launch(context, {grid, square}, add_partials, blocks, columns, partial, static_cast<float*>(first),
                static_cast<float*>(second));
}

}  // namespace comera::kernels::cuda
