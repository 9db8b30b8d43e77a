// Building blocks of attention on CUDA cores. A warp computes 8 rows (queries, or keys in the gradient of keys and
// values) against tiles of 32 columns (keys, or queries). For scores a lane is one column; for sums over columns a
// lane is every 32nd feature. Rows and columns are in shared memory, padded with zeros to the compiled size D.
#pragma once

#include "kernels/cuda/attention/attention_keys.h"
#include "kernels/cuda/common/element.h"

namespace comera::kernels::cuda {

constexpr int rows_per_warp = 8, tile_columns = 32;

// Row pitch of a column tile: lanes that each read 16 bytes of a different row touch different banks.
constexpr int column_stride(int d) { return d + 4; }
// Warps of a block: the number that keeps its tiles below 100 KB.
constexpr int warps_for(int d) { return d <= 64 ? 8 : d <= 128 ? 4 : 1; }
constexpr int block_rows(int d) { return warps_for(d) * rows_per_warp; }

// Copies rows first .. first + count of a matrix to shared memory, `head` elements each. Writes zeros beyond `rows`
// and `head`.
template <int D, class T>
__device__ void load_tile(float* to, int stride, const T* from, std::int64_t ld, std::int64_t first, int count,
                          std::int64_t rows, int head) {
  for (int i = static_cast<int>(threadIdx.x); i < count * D; i += static_cast<int>(blockDim.x)) {
    const int row = i / D, column = i % D;
    to[row * stride + column] =
        first + row < rows && column < head ? to_float(from[(first + row) * ld + column]) : 0.0f;
  }
}

// score[r] = row r of the warp's rows times the lane's column.
template <int D>
__device__ void multiply_rows(const float* rows, const float* column, float (&score)[rows_per_warp]) {
  for (float& s : score) s = 0;
  for (int d = 0; d < D; d += 4) {
    const float4 c = *reinterpret_cast<const float4*>(column + d);
#pragma unroll
    for (int r = 0; r < rows_per_warp; ++r) {
      const float4 x = *reinterpret_cast<const float4*>(rows + r * D + d);
      score[r] += x.x * c.x + x.y * c.y + x.z * c.z + x.w * c.w;
    }
  }
}

// sum[r][i] += weights[r][0..31] times feature lane + 32 i of the 32 columns.
template <int D>
__device__ void add_columns(const float* weights, const float* columns, float (&sum)[rows_per_warp][D / warp_size]) {
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  for (int j = 0; j < tile_columns; ++j) {
#pragma unroll
    for (int i = 0; i < D / warp_size; ++i) {
      const float x = columns[j * column_stride(D) + lane + i * warp_size];
#pragma unroll
      for (int r = 0; r < rows_per_warp; ++r) sum[r][i] += weights[r * tile_columns + j] * x;
    }
  }
}

template <int D, class T>
__device__ void store_row(T* to, const float (&values)[D / warp_size], float factor, int head) {
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  for (int i = 0; i < D / warp_size; ++i)
    if (lane + i * warp_size < head) to[lane + i * warp_size] = to_element<T>(values[i] * factor);
}

// What the score of a query and one of its keys has besides their product.
__device__ inline float bias_of(const AttentionShape& s, std::int64_t head, std::int64_t query, std::int64_t key) {
  if (!s.biased()) return 0;
  return static_cast<const float*>(s.bias)[s.bias_row[key - query + s.queries - 1] * s.heads + head];
}

// Dropout factors of 8 query rows (first_row + r) for the lane's key (first_key + lane; first_key is a multiple of
// 32). Each lane draws the numbers of one row and 8 keys; then the lanes exchange them.
__device__ inline void dropout_factors(const DropoutRule& rule, std::int64_t sample, std::int64_t head,
                                       std::int64_t first_row, std::int64_t first_key, float (&factor)[rows_per_warp]) {
  if (rule.threshold == 0) {
    for (float& f : factor) f = 1;
    return;
  }
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  const unsigned kept = kept_keys(rule, sample, first_row + lane / 4, head, first_key + lane % 4 * 8);
  for (int r = 0; r < rows_per_warp; ++r) {
    const unsigned bits = __shfl_sync(full_warp, kept, r * 4 + lane / 8);
    factor[r] = bits >> (lane % 8) & 1u ? static_cast<float>(rule.scale) : 0.0f;
  }
}

}  // namespace comera::kernels::cuda
