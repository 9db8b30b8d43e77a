// Building blocks of attention on tensor cores, for activation dtype bf16. Products are in bf16; sums and all
// probabilities are in f32. A warp computes 16 rows (queries, or keys in the gradient of keys and values), four warps
// form a block. The block prefetches tiles of columns (keys, or queries). In a product of rows and columns a lane
// holds rows lane / 4 and lane / 4 + 8, called half 0 and half 1, and columns 2 (lane % 4) and 2 (lane % 4) + 1 of
// every 8. Rounded to bf16, this is also the layout of the left operand of the next product, so probabilities stay in
// registers.
#pragma once

#include "kernels/cuda/attention/attention_keys.h"
#include "kernels/cuda/common/tensor_tile.h"

namespace comera::kernels::cuda {

constexpr int tensor_warps = 4, tensor_threads = tensor_warps * warp_size;
constexpr int tensor_warp_rows = 16, tensor_rows = tensor_warps * tensor_warp_rows;
constexpr int tensor_columns = 32, column_blocks = tensor_columns / 8;
constexpr float log2_of_e = 1.4426950408889634f, ln_of_2 = 0.69314718055994531f;

// Row pitch in shared memory: eight rows that are loaded together touch different banks.
constexpr int tensor_pitch(int d) { return d + 8; }
constexpr std::size_t tensor_tile_bytes(int d, int rows) {
  return sizeof(Bf16) * static_cast<std::size_t>(rows * tensor_pitch(d));
}

// The work of a block: blockIdx.x is a tile of rows, blockIdx.y a head, blockIdx.z a sequence.
struct TensorPlace {
  std::int64_t batch = blockIdx.z, head = blockIdx.y, first_row = static_cast<std::int64_t>(blockIdx.x) * tensor_rows;
  int warp = static_cast<int>(threadIdx.x) / warp_size, lane = static_cast<int>(threadIdx.x) % warp_size;
  __device__ std::int64_t first_of_warp() const { return first_row + warp * tensor_warp_rows; }
  __device__ std::int64_t row(int half) const { return first_of_warp() + lane / 4 + 8 * half; }
  template <int D>
  __device__ Bf16* of_warp(Bf16* rows) const {
    return rows + warp * tensor_warp_rows * tensor_pitch(D);
  }
};

// Starts the copy of rows first .. first + count of one head to shared memory. Writes zeros beyond `rows` and beyond
// head_size, a multiple of 8.
template <int D, int count, int threads = tensor_threads>
__device__ void fetch_rows(Bf16* to, const Bf16* from, std::int64_t ld, std::int64_t first, std::int64_t rows,
                           int head_size) {
  constexpr int across = D / 8, step = threads / across;
  const int row = static_cast<int>(threadIdx.x) / across, column = static_cast<int>(threadIdx.x) % across * 8;
  const Bf16* const at = from + (first + row) * ld + column;
  to += row * tensor_pitch(D) + column;
#pragma unroll
  for (int i = 0; i < count; i += step) {
    if (count % step != 0 && row + i >= count) break;
    const bool valid = first + row + i < rows && column < head_size;
    copy_async(to + i * tensor_pitch(D), valid ? at + i * ld : from, valid);
  }
}

// Loads the tiles of keys and values that the block's queries attend to, through two buffers. Calls use(first, k, v)
// for each tile, from key `first` on, that any of the warp's queries attends to.
template <int D, class Args, class Use>
__device__ void for_keys(const Args& a, const TensorPlace& at, Bf16* tiles, const Use& use) {
  const AttentionShape& s = a.shape;
  const std::int64_t key_head = at.head / (s.heads / s.key_heads);
  const int head_size = static_cast<int>(s.head_size);
  constexpr int tile = tensor_columns * tensor_pitch(D);
  const Bf16* const k_rows = static_cast<const Bf16*>(a.k) + at.batch * s.keys * a.ldk + key_head * s.head_size;
  const Bf16* const v_rows = static_cast<const Bf16*>(a.v) + at.batch * s.keys * a.ldv + key_head * s.head_size;
  const KeyRange visited = joined_ranges(s, at.batch, at.first_row, tensor_rows);
  const KeyRange of_warp = joined_ranges(s, at.batch, at.first_of_warp(), tensor_warp_rows);
  const int warp_begin = static_cast<int>(of_warp.begin), warp_end = static_cast<int>(of_warp.end);
  const int begin = static_cast<int>(visited.begin) / tensor_columns * tensor_columns;

  const auto fetch = [&](int c, int place) {
    const int first = begin + c * tensor_columns;
    fetch_rows<D, tensor_columns>(tiles + 2 * place * tile, k_rows, a.ldk, first, s.keys, head_size);
    fetch_rows<D, tensor_columns>(tiles + (2 * place + 1) * tile, v_rows, a.ldv, first, s.keys, head_size);
  };
  for_chunks<2>(static_cast<int>(blocks_for(visited.end - begin, tensor_columns)), fetch, [&](int c, int place) {
    const int first = begin + c * tensor_columns;
    if (first >= warp_end || first + tensor_columns <= warp_begin) return;
    use(first, tiles + 2 * place * tile, tiles + (2 * place + 1) * tile);
  });
}

// sums += the warp's 16 rows times a tile's columns; each row and column has D elements.
template <int D, int blocks>
__device__ void add_dots(float (&sums)[blocks][4], const Bf16* rows, const Bf16* columns) {
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  rows += lane % 16 * tensor_pitch(D) + lane / 16 * 8;
  columns += (lane / 16 * 8 + lane % 8) * tensor_pitch(D) + lane / 8 % 2 * 8;
#pragma unroll
  for (int k = 0; k < D; k += 16) {
    unsigned left[4];
    load_blocks(left, rows + k);
#pragma unroll
    for (int n = 0; n < blocks; n += 2) {
      unsigned right[4];
      load_blocks(right, columns + 8 * n * tensor_pitch(D) + k);
      multiply_add(sums[n], left, right[0], right[1]);
      multiply_add(sums[n + 1], left, right[2], right[3]);
    }
  }
}

// sums += weights, rounded to bf16, times the tile's columns.
template <int D, int blocks>
__device__ void add_weighted(float (&sums)[D / 8][4], const float (&weights)[blocks][4], const Bf16* columns) {
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  columns += lane % 16 * tensor_pitch(D) + lane / 16 * 8;
#pragma unroll
  for (int j = 0; j < blocks; j += 2) {
    const unsigned left[4] = {pair_of(weights[j][0], weights[j][1]), pair_of(weights[j][2], weights[j][3]),
                              pair_of(weights[j + 1][0], weights[j + 1][1]),
                              pair_of(weights[j + 1][2], weights[j + 1][3])};
#pragma unroll
    for (int n = 0; n < D / 8; n += 2) {
      unsigned right[4];
      load_blocks_transposed(right, columns + 8 * j * tensor_pitch(D) + 8 * n);
      multiply_add(sums[n], left, right[0], right[1]);
      multiply_add(sums[n + 1], left, right[2], right[3]);
    }
  }
}

// Writes the warp's 16 rows; half h of a lane is multiplied by factor h. `tile` is shared memory that no other warp
// uses at this point.
template <int D>
__device__ void store_rows(Bf16* tile, const float (&sums)[D / 8][4], float factor0, float factor1, Bf16* to,
                           std::int64_t ld, std::int64_t rows, int head_size) {
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
#pragma unroll
  for (int n = 0; n < D / 8; ++n) {
    const float upper[2] = {sums[n][0] * factor0, sums[n][1] * factor0},
                lower[2] = {sums[n][2] * factor1, sums[n][3] * factor1};
    Bf16* const at = tile + lane / 4 * tensor_pitch(D) + 8 * n + lane % 4 * 2;
    store_floats<2>(upper, at);
    store_floats<2>(lower, at + 8 * tensor_pitch(D));
  }
  __syncwarp();
  for (int v = lane; v < tensor_warp_rows * (D / 8); v += warp_size) {
    const int row = v / (D / 8), column = v % (D / 8) * 8;
    using Eight = Elements<Bf16, 8>;
    if (row < rows && column < head_size)
      *reinterpret_cast<Eight*>(to + row * ld + column) =
          *reinterpret_cast<const Eight*>(tile + row * tensor_pitch(D) + column);
  }
}

// Reduces a value over the four lanes of a row: its sum or its maximum.
template <class Join>
__device__ float reduce_row_lanes(float value, Join join) {
  value = join(value, __shfl_xor_sync(full_warp, value, 1));
  return join(value, __shfl_xor_sync(full_warp, value, 2));
}

// The keys of a tile that dropout keeps, for the rows of a lane. Each of the four lanes of a row draws the numbers of
// 8 keys. Bits 8 half .. 8 half + 7 of word n are keys 8 n .. 8 n + 7 of that half.
struct KeptOfRows {
  unsigned word[column_blocks];

  COMERA_DEVICE bool has(int lane, int half, int n, int j) const {
    return word[n] >> (8 * half + lane % 4 * 2 + j) & 1u;
  }

  __device__ KeptOfRows(const DropoutRule& rule, std::int64_t sample, const TensorPlace& at, std::int64_t first_key) {
    unsigned own = 0;
#pragma unroll 1  // keeps the registers of one draw only
    for (int half = 0; half < 2; ++half)
      own |= kept_keys(renewed(rule), sample, at.row(half), at.head, first_key + at.lane % 4 * 8) << (8 * half);
#pragma unroll
    for (int n = 0; n < column_blocks; ++n) word[n] = __shfl_sync(full_warp, own, at.lane / 4 * 4 + n);
  }
};

// True if the tensor cores support this shape. The caller also checks rows_are_aligned.
inline bool fits_tensor_cores(const AttentionShape& s) {
  constexpr std::int64_t most = 1 << 30;  // positions in a sequence are ints
  return !s.biased() && s.head_size % 8 == 0 && s.head_size <= 128 && s.keys <= most && s.queries <= most;
}

}  // namespace comera::kernels::cuda
