// Rows of a norm in registers: a thread has one or a few groups of eight elements of a row. All loads of a row are
// issued before the first result is used, because waiting for memory takes longer than the arithmetic.
#pragma once

#include <algorithm>

#include "kernels/cuda/common/dropout.h"
#include "kernels/cuda/common/rows.h"
#include "kernels/norm.h"

namespace comera::kernels::cuda {

constexpr int norm_threads = 384;  // of a block of several rows
template <int eights>
constexpr int threads_of = eights == 1 ? norm_threads : row_threads;

template <class T>
__device__ const T* row_of(const void* data, std::int64_t row, std::int64_t columns) {
  return static_cast<const T*>(data) + row * columns;
}
template <class T>
__device__ T* row_of(void* data, std::int64_t row, std::int64_t columns) {
  return static_cast<T*>(data) + row * columns;
}
inline __device__ const float* f32(const void* data) { return static_cast<const float*>(data); }

// Column of the thread's c-th group of eight. The kernels for rows in registers count columns in 32 bits.
inline __device__ int place(int c) { return static_cast<int>((threadIdx.x + c * blockDim.x) * 8); }

// A thread's part of the row that begins at element `start`; zero beyond `end` columns, which is 0 for rows beyond the
// last. Needs alignment and whole eights.
template <class T, int eights>
__device__ void load_row(const void* data, std::int64_t start, int end, StoredEight<T> (&x)[eights]) {
#pragma unroll
  for (int c = 0; c < eights; ++c) {
    x[c] = {};
    if (place(c) < end) x[c].load(static_cast<const T*>(data) + start + place(c));
  }
}
template <class T, int eights>
__device__ void write_row(void* data, std::int64_t start, int end, const Eight (&x)[eights]) {
#pragma unroll
  for (int c = 0; c < eights; ++c)
    if (place(c) < end) store_aligned(x[c], static_cast<T*>(data) + start + place(c));
}

// Adds up each value over the threads of a row, for all rows of the block at once: all threads must call it. Calls
// alternate between two buffers, so that one barrier is enough.
template <int count>
__device__ void sum_rows(float (&value)[count], int& buffer) {
  constexpr int most_warps = row_threads / warp_size;
  __shared__ float parts[2][count][warp_size];
#pragma unroll
  for (int bits = warp_size / 2; bits > 0; bits /= 2)
#pragma unroll
    for (int i = 0; i < count; ++i) value[i] += __shfl_xor_sync(full_warp, value[i], bits);
  const int warps = blockDim.x / warp_size, first = threadIdx.y * warps;
  if (warps == 1) return;
  if (threadIdx.x % warp_size == 0)
    for (int i = 0; i < count; ++i) parts[buffer][i][first + threadIdx.x / warp_size] = value[i];
  __syncthreads();
  const int other = threadIdx.x % most_warps;
#pragma unroll
  for (int i = 0; i < count; ++i) value[i] = other < warps ? parts[buffer][i][first + other] : 0.0f;
#pragma unroll
  for (int bits = most_warps / 2; bits > 0; bits /= 2)
#pragma unroll
    for (int i = 0; i < count; ++i) value[i] += __shfl_xor_sync(full_warp, value[i], bits);
  buffer = 1 - buffer;
}

COMERA_DEVICE float normalised(float s, float mean, float rstd) { return (s - mean) * rstd; }

// A thread has one group of eight of a row; in rows of more than 8 * row_threads columns several, and of more than 32 *
// row_threads columns too many for its registers. `rows` are those of a block; they fill it if there are enough for all
// processors.
inline dim3 norm_block(std::int64_t columns, std::int64_t rows) {
  const auto x = std::min<std::int64_t>(blocks_for(blocks_for(columns, 8), warp_size) * warp_size, row_threads);
  return {static_cast<unsigned>(x), static_cast<unsigned>(std::clamp<std::int64_t>(rows, 1, norm_threads / x))};
}

// The block of the forward for this number of rows in all. If they fill all processors with blocks of eight warps, each
// warp has a row and each thread up to four groups of it: warps exchange nothing, and what a thread computes once, such
// as the key of its random numbers, serves more elements.
inline dim3 forward_block(std::int64_t columns, std::int64_t rows) {
  constexpr int warps = row_threads / warp_size;
  if (columns <= warp_columns && rows >= warps * processors) return {warp_size, warps};
  return norm_block(columns, rows / processors);
}

// Calls f with the number of eights per thread as a type; 0 for the kernels that read rows again. `threads` share a
// row.
template <class F>
Status with_eights(std::int64_t columns, unsigned threads, bool aligned, F&& f) {
  switch (aligned && columns % 8 == 0 ? blocks_for(columns, 8 * static_cast<std::int64_t>(threads)) : 0) {
    case 1: return f(std::integral_constant<int, 1>{});
    case 2: return f(std::integral_constant<int, 2>{});
    case 3: return f(std::integral_constant<int, 3>{});
    case 4: return f(std::integral_constant<int, 4>{});
    default: return f(std::integral_constant<int, 0>{});
  }
}

}  // namespace comera::kernels::cuda
