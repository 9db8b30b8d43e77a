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

// The dropout of a block's sequence, in shared memory: one thread computes it, and it takes no registers.
struct BlockDropout {
  PhiloxKey key;
  std::uint32_t site, threshold;
  std::int64_t sample;
  float keep;

  __device__ void set(const Dropout& dropout, std::int64_t batch) {
    sample = dropout.probability > 0 ? dropout.samples[batch] : 0;
    const DropoutRule rule(dropout);
    key = rule.key, site = rule.site, threshold = rule.threshold, keep = static_cast<float>(rule.scale);
  }
  __device__ DropoutRule rule() const {
    DropoutRule rule;
    rule.key = key, rule.site = site, rule.threshold = threshold;
    return rule;
  }
};

// The keys of a lane's two rows, for queries as rows, and all that the block's rows attend to: those of two rows until
// join() includes the other lanes. The loads of all are under way at the same time.
struct TensorRange {
  int row_begin[2], row_end[2], begin, end;

  __device__ TensorRange(const AttentionShape& s, const TensorPlace& at) {
    const std::int64_t all = at.batch * s.queries;
    const int queries = static_cast<int>(s.queries), keys = static_cast<int>(s.keys),
              first = static_cast<int>(at.first_row) + at.lane;
    const int query[] = {static_cast<int>(at.row(0)), static_cast<int>(at.row(1)), first, first + warp_size};
    static_assert(tensor_rows == 2 * warp_size);
    int from[4] = {}, to[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) to[i] = query[i] < queries ? keys : 0;
    if (s.key_begin) {
#pragma unroll
      for (int i = 0; i < 4; ++i) from[i] = max(s.key_begin[all + min(query[i], queries - 1)], 0);
    }
    if (s.key_end) {
#pragma unroll
      for (int i = 0; i < 4; ++i) to[i] = min(s.key_end[all + min(query[i], queries - 1)], to[i]);
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) row_begin[half] = from[half], row_end[half] = to[half];
    begin = min(from[2] < to[2] ? from[2] : keys, from[3] < to[3] ? from[3] : keys);
    end = max(from[2] < to[2] ? to[2] : 0, from[3] < to[3] ? to[3] : 0);
  }
  __device__ void join() {
    begin = -reduce_warp(-begin, Larger{});
    end = reduce_warp(end, Larger{});
  }
  // True if the lane's rows attend to some of a tile from key `first` on.
  __device__ bool attends(int first) const {
    bool some = false;
#pragma unroll
    for (int half = 0; half < 2; ++half)
      some |= row_begin[half] < min(row_end[half], first + tensor_columns) && first < row_end[half];
    return some;
  }
};

// Loads the tiles of keys and values that the block's queries attend to, through buffers for `stages` of them. Calls
// use(first, k, v) for each tile, from key `first` on, that any of the warp's queries attends to. Before, sets
// `dropout`.
template <int D, int stages = 2, class Args, class Use>
__device__ void for_keys(const Args& a, const TensorPlace& at, TensorRange range, Bf16* tiles, BlockDropout& dropout,
                         const Use& use) {
  const AttentionShape& s = a.shape;
  const int head_size = static_cast<int>(s.head_size),
            key_head = static_cast<int>(at.head) / (static_cast<int>(s.heads) / static_cast<int>(s.key_heads));
  constexpr int tile = tensor_columns * tensor_pitch(D);
  const Bf16* const k_rows = static_cast<const Bf16*>(a.k) + at.batch * s.keys * a.ldk + key_head * s.head_size;
  const Bf16* const v_rows = static_cast<const Bf16*>(a.v) + at.batch * s.keys * a.ldv + key_head * s.head_size;
  range.join();
  const int begin = range.begin / tensor_columns * tensor_columns;

  const auto fetch = [&](int c, int place) {
    const int first = begin + c * tensor_columns;
    fetch_rows<D, tensor_columns>(tiles + 2 * place * tile, k_rows, a.ldk, first, s.keys, head_size);
    fetch_rows<D, tensor_columns>(tiles + (2 * place + 1) * tile, v_rows, a.ldv, first, s.keys, head_size);
  };
  const auto use_tile = [&](int c, int place) {
    const int first = begin + c * tensor_columns;
    if (__any_sync(full_warp, range.attends(first)))
      use(first, tiles + 2 * place * tile, tiles + (2 * place + 1) * tile);
  };
  for_chunks<stages>((range.end - begin + tensor_columns - 1) / tensor_columns, fetch, use_tile, [&] {
    if (threadIdx.x == 0) dropout.set(a.dropout, at.batch);
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

// Writes some columns of the warp's 16 rows; half h of a lane is multiplied by factor h. `tile` is shared memory that
// no other warp uses at this point.
template <int D, int columns = D>
__device__ void store_rows(Bf16* tile, const float (&sums)[columns / 8][4], float factor0, float factor1, Bf16* to,
                           std::int64_t ld, std::int64_t rows, int columns_left) {
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
#pragma unroll
  for (int n = 0; n < columns / 8; ++n) {
    const float upper[2] = {sums[n][0] * factor0, sums[n][1] * factor0},
                lower[2] = {sums[n][2] * factor1, sums[n][3] * factor1};
    Bf16* const at = tile + lane / 4 * tensor_pitch(D) + 8 * n + lane % 4 * 2;
    store_floats<2>(upper, at);
    store_floats<2>(lower, at + 8 * tensor_pitch(D));
  }
  __syncwarp();
  constexpr int across = columns / 8, high = warp_size / across;
#pragma unroll
  for (int i = 0; i < tensor_warp_rows; i += high) {
    const int row = i + lane / across, column = lane % across * 8;
    using Eight = Elements<Bf16, 8>;
    if (row < rows && column < columns_left)
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

// The keys of a tile that dropout keeps, for the rows of a lane. Each of the four lanes of a row draws the numbers of 8
// keys.
struct KeptOfRows {
  unsigned own = ~0u;

  // Bits 8 half .. 8 half + 7 are keys 8 n .. 8 n + 7 of that half.
  __device__ unsigned word(int lane, int n) const { return __shfl_sync(full_warp, own, lane / 4 * 4 + n); }
  static COMERA_DEVICE bool has(unsigned word, int lane, int half, int j) {
    return word >> (8 * half + lane % 4 * 2 + j) & 1u;
  }

  __device__ KeptOfRows(const BlockDropout& dropout, const TensorPlace& at, std::int64_t first_key) {
    if (dropout.threshold == 0) return;
    const DropoutRule rule = dropout.rule();
    const std::int64_t first = first_key + at.lane % 4 * 8;
    own = kept_keys(rule, dropout.sample, at.row(0), at.head, first) |
          kept_keys(rule, dropout.sample, at.row(1), at.head, first) << 8;
  }
};

// True if the tensor cores support this shape. The caller also checks rows_are_aligned.
inline bool fits_tensor_cores(const AttentionShape& s) {
  constexpr std::int64_t most = 1 << 30;  // positions in a sequence are ints
  return !s.biased() && s.head_size % 8 == 0 && s.head_size <= 128 && s.keys <= most && s.queries <= most;
}

}  // namespace comera::kernels::cuda
