// A TT layer's backward but for the two products that sum over tokens, in one launch: d_pre = dy * act'(pre), its column sums, U1_i =
// d_pre B_i^T on the chip, dx = U1 A^T. dB and dA follow as products of T1 and x with d_pre and U1.
//
// The mirror of tt_fused.h: a block has `rows` tokens and takes dy, pre and B in chunks of the columns of y, some of them ahead; U1 then
// stays in shared memory for dx. dy and pre are read once here and d_pre once by dB's product, where going by parts reads them a third time.
#pragma once

#include "kernels/cuda/tall.h"
#include "kernels/cuda/tt_fused.h"

namespace comera::kernels::cuda {

template <class T, int rows>
struct FusedBackTile {
  using Forward = FusedTile<T, rows>;
  static constexpr int row_parts = Forward::row_parts, columns = Forward::columns, inner = Forward::inner, stages = Forward::stages;
  static constexpr int pad = Forward::pad, pitch = inner + pad;  // of a chunk of dy, pre and B: [row, inner]
  static constexpr int a_pitch = fused_rank + pad, out_pitch = columns + 4;

  int wide, largest_rank;  // columns of U1, of an output's part of it, in whole tiles
  bool slopes;

  COMERA_DEVICE FusedBackTile(int width, int rank, bool slopes) : wide(in_tiles(width)), largest_rank(in_tiles(rank)), slopes(slopes) {}
  static COMERA_DEVICE int in_tiles(int count) { return (count + warp_tile - 1) / warp_tile * warp_tile; }
  static COMERA_DEVICE int parts(int rank) { return Forward(rank).inner_parts(); }
  COMERA_DEVICE int u1_pitch() const { return wide + pad; }
  COMERA_DEVICE std::size_t u1_bytes() const { return sizeof(T) * rows * u1_pitch(); }
  static constexpr std::size_t sums_bytes = sizeof(float) * fused_warps * inner;
  COMERA_DEVICE int stage_elements() const { return ((slopes ? 2 : 1) * rows + largest_rank) * pitch; }
  COMERA_DEVICE std::size_t first_bytes() const {
    const std::size_t chunks = sizeof(T) * stages * stage_elements(), partial = sizeof(float) * fused_warps * warp_tile * warp_tile;
    return chunks > partial ? chunks : partial;
  }
  COMERA_DEVICE std::size_t second_bytes() const { return sizeof(T) * 2 * columns * a_pitch + sizeof(float) * rows * out_pitch; }
  std::size_t bytes() const { return sums_bytes + u1_bytes() + (first_bytes() > second_bytes() ? first_bytes() : second_bytes()); }
  bool fits() const { return row_parts * (largest_rank / warp_tile) <= fused_warps && bytes() <= fused_shared; }
};

template <class T>
struct FusedBackOutput {
  const T *right = nullptr, *dy = nullptr, *pre = nullptr;
  T* d_pre = nullptr;     // [tokens, columns], where there is a slope
  float* sums = nullptr;  // [blocks, columns], optional
  std::int64_t ld = 0;
  int columns = 0, rank = 0, offset = 0;
};

template <class T>
struct FusedBackward {
  std::int64_t tokens = 0, lddx = 0;
  int in = 0, width = 0, largest_rank = 0, outputs = 0;
  bool accumulate_dx = false;
  Activation activation = Activation::none;
  const T* left = nullptr;
  T *u1 = nullptr, *dx = nullptr;
  FusedBackOutput<T> output[max_outputs];
};

template <class T, int rows>
__device__ void fetch_gradient(const FusedBackward<T>& a, const FusedBackOutput<T>& o, const FusedBackTile<T, rows>& tile, std::int64_t token,
                               int chunk, T* to) {
  using Shape = FusedBackTile<T, rows>;
  constexpr int lanes = lanes_of_vector<T>, across = Shape::inner / lanes;
  const int first = chunk * Shape::inner;
  for (int v = static_cast<int>(threadIdx.x); v < rows * across; v += fused_threads) {
    const int row = v / across, column = v % across * lanes, at = row * Shape::pitch + column;
    const bool valid = token + row < a.tokens && first + column < o.columns;
    const std::int64_t from = valid ? (token + row) * o.ld + first + column : 0;
    copy_async(to + at, o.dy + from, valid);
    if (tile.slopes) copy_async(to + rows * Shape::pitch + at, o.pre + from, valid);
  }
  T* const right = to + (tile.slopes ? 2 : 1) * rows * Shape::pitch;
  for (int v = static_cast<int>(threadIdx.x); v < Shape::in_tiles(o.rank) * across; v += fused_threads) {
    const int row = v / across, column = v % across * lanes;
    const bool valid = row < o.rank && first + column < o.columns;
    copy_async(right + row * Shape::pitch + column, valid ? o.right + static_cast<std::int64_t>(row) * o.columns + first + column : o.dy, valid);
  }
}

// The chunk of dy becomes that of d_pre; each warp leaves the sums of its rows' columns.
template <class T, int rows>
__device__ void apply_slope(const FusedBackward<T>& a, const FusedBackOutput<T>& o, const FusedBackTile<T, rows>& tile, std::int64_t token, int chunk,
                            T* dy, float* sums) {
  using Shape = FusedBackTile<T, rows>;
  constexpr int lanes = lanes_of_vector<T>, across = Shape::inner / lanes;
  static_assert(fused_threads % across == 0 && warp_size % across == 0);
  const int thread = static_cast<int>(threadIdx.x), place = thread % across * lanes, column = chunk * Shape::inner + place;
  float sum[lanes] = {}, value[lanes], pre[lanes];
  for (int row = thread / across; row < rows; row += fused_threads / across) {
    T* const at = dy + row * Shape::pitch + place;
    load_floats<lanes>(at, value);
    if (tile.slopes) {
      load_floats<lanes>(at + rows * Shape::pitch, pre);
#pragma unroll
      for (int j = 0; j < lanes; ++j) value[j] *= activation_slope(a.activation, pre[j]);
      store_floats<lanes>(value, at);
      if (token + row < a.tokens && column < o.columns) store_floats<lanes>(value, o.d_pre + (token + row) * o.columns + column);
    }
#pragma unroll
    for (int j = 0; j < lanes; ++j) sum[j] += value[j];
  }
  if (!o.sums) return;
#pragma unroll
  for (int j = 0; j < lanes; ++j)
    for (int step = across; step < warp_size; step *= 2) sum[j] += __shfl_xor_sync(full_warp, sum[j], step);
  if (thread % warp_size < across) store_floats<lanes>(sum, sums + thread / warp_size * Shape::inner + place);
}

// U1_i of the block's tokens, in T, to shared memory and to a.u1.
template <class T, int rows>
__device__ void right_gradient(const FusedBackward<T>& a, const FusedBackOutput<T>& o, const FusedBackTile<T, rows>& tile, std::int64_t token,
                               float* sums, T* u1, T* chunks) {
  using Shape = FusedBackTile<T, rows>;
  const int thread = static_cast<int>(threadIdx.x), warp = thread / warp_size, strips = Shape::in_tiles(o.rank) / warp_tile;
  const int parts = o.rank > 0 ? Shape::parts(o.rank) : 0, depth = parts > 0 ? Shape::inner / parts : 0;
  const int row_part = warp % Shape::row_parts, strip = strips > 0 ? warp / Shape::row_parts % strips : 0;
  const int part = strips > 0 ? warp / (Shape::row_parts * strips) : 0, count = (o.columns + Shape::inner - 1) / Shape::inner;
  WarpTile sum;
  sum.clear();
  const auto fetch = [&](int chunk, int place) { fetch_gradient(a, o, tile, token, chunk, chunks + place * tile.stage_elements()); };
  for_chunks<Shape::stages>(count, fetch, [&](int c, int place) {
    T* const dy = chunks + place * tile.stage_elements();
    apply_slope(a, o, tile, token, c, dy, sums);
    __syncthreads();
    const int column = c * Shape::inner + thread;
    if (o.sums && thread < Shape::inner && column < o.columns) {
      float total = 0;
      for (int w = 0; w < fused_warps; ++w) total += sums[w * Shape::inner + thread];
      o.sums[static_cast<std::int64_t>(blockIdx.x) * o.columns + column] = total;
    }
    if (part < parts)
      multiply<true>(sum, dy + row_part * warp_tile * Shape::pitch + part * depth, Shape::pitch,
                     dy + ((tile.slopes ? 2 : 1) * rows + strip * warp_tile) * Shape::pitch + part * depth, Shape::pitch, depth);
  });
  float* const partial = reinterpret_cast<float*>(chunks);  // [parts, rows, strips of columns]
  const int wide = strips * warp_tile;
  if (part < parts)
    sum.for_pairs([&](int row, int column, float p, float q) {
      float* to = partial + (part * rows + row_part * warp_tile + row) * wide + strip * warp_tile + column;
      to[0] = p, to[1] = q;
    });
  __syncthreads();
  for (int i = thread; i < rows * o.rank; i += fused_threads) {
    const int row = i / o.rank, column = i % o.rank;
    float total = 0;
    for (int p = 0; p < parts; ++p) total += partial[(p * rows + row) * wide + column];
    const T value = to_element<T>(total);
    u1[row * tile.u1_pitch() + o.offset + column] = value;
    if (token + row < a.tokens) a.u1[(token + row) * a.width + o.offset + column] = value;
  }
  __syncthreads();
}

// Rows of A, one for each column of a tile of dx, and a chunk of the width.
template <class T, int rows>
__device__ void fetch_left(const FusedBackward<T>& a, int tile, int chunk, T* to) {
  using Shape = FusedBackTile<T, rows>;
  constexpr int lanes = lanes_of_vector<T>, across = fused_rank / lanes;
  for (int v = static_cast<int>(threadIdx.x); v < Shape::columns * across; v += fused_threads) {
    const int row = tile * Shape::columns + v / across, column = chunk * fused_rank + v % across * lanes;
    const bool valid = row < a.in && column < a.width;
    copy_async(to + v / across * Shape::a_pitch + v % across * lanes, valid ? a.left + static_cast<std::int64_t>(row) * a.width + column : a.left,
               valid);
  }
}

template <class T, int rows>
__device__ void write_dx(const FusedBackward<T>& a, int tile, std::int64_t token, const float* out) {
  using Shape = FusedBackTile<T, rows>;
  constexpr int lanes = lanes_of_vector<T>, across = Shape::columns / lanes;
  for (int v = static_cast<int>(threadIdx.x); v < rows * across; v += fused_threads) {
    const int row = v / across, column = tile * Shape::columns + v % across * lanes;
    if (token + row >= a.tokens || column >= a.in) continue;
    float value[lanes], before[lanes] = {};
#pragma unroll
    for (int j = 0; j < lanes; j += 4) load_floats<4>(out + row * Shape::out_pitch + v % across * lanes + j, value + j);
    T* const to = a.dx + (token + row) * a.lddx + column;
    if (a.accumulate_dx) load_floats<lanes>(to, before);
#pragma unroll
    for (int j = 0; j < lanes; ++j) value[j] += before[j];
    store_floats<lanes>(value, to);
  }
}

template <class T, int rows>
__device__ void left_gradient(const FusedBackward<T>& a, const FusedBackTile<T, rows>& tile, std::int64_t token, const T* u1, T* left, float* out) {
  using Shape = FusedBackTile<T, rows>;
  constexpr int buffer = Shape::columns * Shape::a_pitch;
  const int warp = static_cast<int>(threadIdx.x) / warp_size, row_part = warp % Shape::row_parts, strip = warp / Shape::row_parts;
  const int chunks = tile.wide / fused_rank, steps = (a.in + Shape::columns - 1) / Shape::columns * chunks;
  fetch_left<T, rows>(a, 0, 0, left);
  commit_copies();
  WarpTile sum;
  sum.clear();
  for (int step = 0; step < steps; ++step) {
    wait_for_copies<0>();
    __syncthreads();  // the chunk is here for all; the other buffer and `out` are free
    if (step + 1 < steps) fetch_left<T, rows>(a, (step + 1) / chunks, (step + 1) % chunks, left + (step + 1) % 2 * buffer);
    commit_copies();
    multiply<true>(sum, u1 + row_part * warp_tile * tile.u1_pitch() + step % chunks * fused_rank, tile.u1_pitch(),
                   left + step % 2 * buffer + strip * warp_tile * Shape::a_pitch, Shape::a_pitch, fused_rank);
    if ((step + 1) % chunks != 0) continue;
    sum.for_pairs([&](int row, int column, float p, float q) {
      float* to = out + (row_part * warp_tile + row) * Shape::out_pitch + strip * warp_tile + column;
      to[0] = p, to[1] = q;
    });
    sum.clear();
    __syncthreads();
    write_dx<T, rows>(a, step / chunks, token, out);
  }
  wait_for_copies<0>();
}

template <class T, int rows>
__global__ void __launch_bounds__(fused_threads, 2) tt_backward_fused(const __grid_constant__ FusedBackward<T> a) {
  using Shape = FusedBackTile<T, rows>;
  const Shape tile(a.width, a.largest_rank, a.activation != Activation::none);
  unsigned char* const shared = shared_memory<unsigned char>();
  float* const sums = reinterpret_cast<float*>(shared);
  T* const u1 = reinterpret_cast<T*>(shared + Shape::sums_bytes);
  T* const parts = u1 + rows * tile.u1_pitch();
  const std::int64_t token = static_cast<std::int64_t>(blockIdx.x) * rows;
  for (int i = static_cast<int>(threadIdx.x); i < rows * (tile.wide - a.width); i += fused_threads)
    u1[i / (tile.wide - a.width) * tile.u1_pitch() + a.width + i % (tile.wide - a.width)] = to_element<T>(0);
  for (int i = 0; i < a.outputs; ++i) right_gradient(a, a.output[i], tile, token, sums, u1, parts);
  if (a.dx) left_gradient(a, tile, token, u1, parts, reinterpret_cast<float*>(parts + 2 * Shape::columns * Shape::a_pitch));
}

// The sums have so many tokens to a block.
template <class T>
constexpr int fused_back_rows = sizeof(T) == 2 ? 32 : 64;

template <class T>
FusedBackTile<T, fused_back_rows<T>> fused_back_tile(const TtLinearBackward& a) {
  std::int64_t largest_rank = 0;
  for (int i = 0; i < a.outputs; ++i) largest_rank = a.output[i].rank > largest_rank ? a.output[i].rank : largest_rank;
  return {static_cast<int>(a.width), static_cast<int>(largest_rank), a.activation != Activation::none};
}

// The fused path reads and writes 16 bytes at a time, and `pre` must have been kept.
template <class T>
bool can_fuse(const TtLinearBackward& a) {
  constexpr std::int64_t lanes = lanes_of_vector<T>, limit = (std::int64_t{1} << 30);
  bool can = a.width > 0 && a.in < limit && a.width < limit && rows_are_aligned<T>(a.left, a.width);
  if (a.dx) can &= a.in % lanes == 0 && rows_are_aligned<T>(a.dx, a.lddx);
  for (int i = 0; i < a.outputs; ++i) {
    const TtOutput& o = a.output[i];
    can &= o.out < limit && o.out % lanes == 0 && rows_are_aligned<T>(o.right, o.out) && rows_are_aligned<T>(o.dy, o.ldy) &&
           rows_are_aligned<T>(o.pre, o.ldy) && (o.pre || a.activation == Activation::none);
  }
  return can && fused_back_tile<T>(a).fits();
}

// d_pre and sums lie at the given places.
template <class T>
Status try_fused(const Context& context, const TtLinearBackward& a, T* const* d_pre, float* const* sums) {
  constexpr int rows = fused_back_rows<T>;
  if (!can_fuse<T>(a)) return Status::unsupported_shape;
  FusedBackward<T> f;
  f.tokens = a.tokens, f.lddx = a.lddx, f.in = static_cast<int>(a.in), f.width = static_cast<int>(a.width), f.outputs = a.outputs;
  f.accumulate_dx = a.accumulate_dx, f.activation = a.activation, f.left = static_cast<const T*>(a.left);
  f.u1 = static_cast<T*>(a.u1), f.dx = static_cast<T*>(a.dx);
  for (int i = 0; i < a.outputs; ++i) {
    const TtOutput& o = a.output[i];
    f.output[i] = {
        static_cast<const T*>(o.right), static_cast<const T*>(o.dy), static_cast<const T*>(o.pre), d_pre[i], o.d_bias ? sums[i] : nullptr, o.ldy,
        static_cast<int>(o.out),        static_cast<int>(o.rank),    static_cast<int>(o.offset)};
  }
  const FusedBackTile<T, rows> tile = fused_back_tile<T>(a);
  f.largest_rank = tile.largest_rank;
  return launch(context, {static_cast<unsigned>(blocks_for(a.tokens, rows)), fused_threads, tile.bytes()}, tt_backward_fused<T, rows>, f);
}

}  // namespace comera::kernels::cuda
