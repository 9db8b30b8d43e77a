// Kernels that process one row at a time. A short row belongs to a warp (four warps form a block), a longer row to a
// block of up to 256 threads. The threads of a row process eight elements at a time (eights.h).
#pragma once

#include "kernels/cuda/common/eights.h"
#include "kernels/cuda/common/reduce.h"

namespace comera::kernels::cuda {

constexpr std::int64_t warp_columns = 1024;  // a row of at most this many columns belongs to a warp
constexpr int row_threads = 256;             // largest block

inline dim3 row_block(std::int64_t columns) {
  if (columns <= warp_columns) return {warp_size, 4};
  const std::int64_t threads = blocks_for(blocks_for(columns, 8), warp_size) * warp_size;
  return {static_cast<unsigned>(threads < row_threads ? threads : row_threads)};
}
inline Launch row_launch(std::int64_t rows, std::int64_t columns) {
  const dim3 block = row_block(columns);
  return {grid_for(rows, block.y), block};
}

inline __device__ std::int64_t first_row() { return static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y; }
inline __device__ std::int64_t row_stride() { return static_cast<std::int64_t>(gridDim.x) * blockDim.y; }
// First group of eight elements of a thread, and the step to its next group.
inline __device__ std::int64_t first_eight() { return threadIdx.x * 8; }
inline __device__ std::int64_t eight_stride() { return blockDim.x * 8; }

// Every thread of the row gets the result; all of them must call this.
template <class T, class Join>
__device__ T reduce_row(T value, T neutral, Join join) {
  return blockDim.x == warp_size ? reduce_warp(value, join) : reduce_block(value, neutral, join);
}
template <class T>
__device__ T sum_of_row(T value) {
  return reduce_row(value, T(0), Add{});
}

}  // namespace comera::kernels::cuda
