// The forward of a TT layer in one launch: T1 = x A stays on the chip, then y_i = act(T1 B_i + b_i) for every output.
//
// A block has `rows` tokens. First product: x and A are prefetched asynchronously in chunks along M. The warps split
// the tile of T1 by rows, by columns and by parts of the inner index; the parts' sums are added in a fixed order.
// Second product: tiles of columns of all outputs, with B in chunks of 32 along the rank. Values pass through shared
// memory, so that bias, activation and stores use 16-byte accesses. With many tokens the limit is the memory traffic
// of x, y and pre; each block reads A and B from the L2 cache once. With few tokens several blocks share the columns
// of y and each computes T1 again.
#pragma once

#include "kernels/cuda/common/activation.h"
#include "kernels/cuda/common/tensor_tile.h"
#include "kernels/tt_linear.h"

namespace comera::kernels::cuda {

constexpr int fused_warps = 8, fused_threads = fused_warps * warp_size;
constexpr int fused_rank = 32;                   // per chunk of the second product
constexpr std::size_t fused_shared = 99 * 1024;  // available to a block on every GPU since sm_80
// Blocks that share tokens read x and A and compute T1 once each, so there are no more than fill the processors.
constexpr std::int64_t fused_blocks = processors;
constexpr std::int64_t many_tokens = 2 * processors * 64;

template <class T, int rows>
struct FusedTile {
  static constexpr int row_parts = rows / warp_tile;
  static constexpr int columns = fused_warps / row_parts * warp_tile;  // of the second product
  static constexpr int inner = sizeof(T) == 2 ? 64 : 32;               // per chunk of the first product
  static constexpr int stages = sizeof(T) == 2 ? 4 : 3;
  static constexpr int pad = lanes_of_vector<T>;
  static constexpr int x_pitch = inner + pad, b_pitch = columns + pad, out_pitch = columns + 4;

  int strips;  // tiles of T1, 32 columns each

  COMERA_DEVICE explicit FusedTile(int width) : strips((width + warp_tile - 1) / warp_tile) {}
  COMERA_DEVICE int wide() const { return strips * warp_tile; }
  COMERA_DEVICE int pitch() const { return wide() + pad; }  // of A's chunk and of T1
  COMERA_DEVICE int inner_parts() const {
    const int fit = fused_warps / (row_parts * strips), most = inner / inner_step<T>;
    const int parts = fit < most ? fit : most;
    return parts >= 8 ? 8 : parts >= 4 ? 4 : parts >= 2 ? 2 : 1;
  }
  COMERA_DEVICE std::size_t t1_bytes() const { return sizeof(T) * rows * pitch(); }
  COMERA_DEVICE std::size_t stage_elements() const {
    return static_cast<std::size_t>(rows) * x_pitch + static_cast<std::size_t>(inner) * pitch();
  }
  COMERA_DEVICE std::size_t first_bytes() const {
    const std::size_t chunks = sizeof(T) * stages * stage_elements(),
                      sums = sizeof(float) * inner_parts() * rows * wide();
    return chunks > sums ? chunks : sums;
  }
  COMERA_DEVICE std::size_t second_bytes() const {
    return sizeof(T) * 2 * fused_rank * b_pitch + sizeof(float) * rows * out_pitch;
  }
  std::size_t bytes() const { return t1_bytes() + (first_bytes() > second_bytes() ? first_bytes() : second_bytes()); }
  bool fits() const { return row_parts * strips <= fused_warps && bytes() <= fused_shared; }
};

template <class T>
struct FusedOutput {
  const T* right = nullptr;
  const float* bias = nullptr;
  T *y = nullptr, *pre = nullptr;
  std::int64_t ld = 0;
  int columns = 0, rank = 0, offset = 0;
};

template <class T>
struct FusedForward {
  std::int64_t tokens = 0, ldx = 0;
  int in = 0, width = 0, outputs = 0;
  bool t1_is_given = false;
  Activation activation = Activation::none;
  const T *x = nullptr, *left = nullptr;
  T* t1 = nullptr;
  FusedOutput<T> output[max_outputs];
};

// Starts copies of rows of x and of A to shared memory, zero outside.
template <class T, int rows>
__device__ void fetch_inner(const FusedForward<T>& a, const FusedTile<T, rows>& tile, std::int64_t token, int chunk,
                            T* to) {
  constexpr int lanes = lanes_of_vector<T>, inner = FusedTile<T, rows>::inner, across = inner / lanes;
  const int first = chunk * inner;
  for (int v = static_cast<int>(threadIdx.x); v < rows * across; v += fused_threads) {
    const int row = v / across, column = v % across * lanes;
    const bool valid = token + row < a.tokens && first + column < a.in;
    copy_async(to + row * FusedTile<T, rows>::x_pitch + column,
               valid ? a.x + (token + row) * a.ldx + first + column : a.x, valid);
  }
  T* const left = to + rows * FusedTile<T, rows>::x_pitch;
  const int vectors = tile.wide() / lanes;
  for (int v = static_cast<int>(threadIdx.x); v < inner * vectors; v += fused_threads) {
    const int row = v / vectors, column = v % vectors * lanes;
    const bool valid = first + row < a.in && column < a.width;
    copy_async(left + row * tile.pitch() + column,
               valid ? a.left + static_cast<std::int64_t>(first + row) * a.width + column : a.left, valid);
  }
}

// Computes T1 of the block's tokens, rounded to T. Writes it to shared memory; one of the blocks with these tokens
// also writes it to a.t1.
template <class T, int rows>
__device__ void first_product(const FusedForward<T>& a, const FusedTile<T, rows>& tile, std::int64_t token, T* t1,
                              T* chunks) {
  using Shape = FusedTile<T, rows>;
  const int warp = static_cast<int>(threadIdx.x) / warp_size, row_part = warp % Shape::row_parts,
            strip = warp / Shape::row_parts % tile.strips;
  const int part = warp / (Shape::row_parts * tile.strips), parts = tile.inner_parts(), depth = Shape::inner / parts;
  const int count = (a.in + Shape::inner - 1) / Shape::inner;
  WarpTile sum;
  sum.clear();
  const auto fetch = [&](int chunk, int place) {
    fetch_inner(a, tile, token, chunk, chunks + place * tile.stage_elements());
  };
  for_chunks<Shape::stages>(count, fetch, [&](int, int place) {
    const T *x = chunks + place * tile.stage_elements(), *left = x + rows * Shape::x_pitch;
    if (part < parts)
      multiply<false>(sum, x + row_part * warp_tile * Shape::x_pitch + part * depth, Shape::x_pitch,
                      left + part * depth * tile.pitch() + strip * warp_tile, tile.pitch(), depth);
  });
  float* const sums = reinterpret_cast<float*>(chunks);  // [parts, rows, wide]
  if (part < parts)
    sum.for_pairs([&](int row, int column, float p, float q) {
      float* to = sums + (part * rows + row_part * warp_tile + row) * tile.wide() + strip * warp_tile + column;
      to[0] = p, to[1] = q;
    });
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < rows * tile.wide(); i += fused_threads) {
    const int row = i / tile.wide(), column = i % tile.wide();
    float total = 0;
    for (int p = 0; p < parts; ++p) total += sums[p * rows * tile.wide() + i];
    const T value = to_element<T>(total);
    t1[row * tile.pitch() + column] = value;
    if (blockIdx.y == 0 && token + row < a.tokens && column < a.width) a.t1[(token + row) * a.width + column] = value;
  }
  __syncthreads();
}

template <class T, int rows>
__device__ void take_t1(const FusedForward<T>& a, const FusedTile<T, rows>& tile, std::int64_t token, T* t1) {
  for (int i = static_cast<int>(threadIdx.x); i < rows * tile.wide(); i += fused_threads) {
    const int row = i / tile.wide(), column = i % tile.wide();
    const bool valid = token + row < a.tokens && column < a.width;
    t1[row * tile.pitch() + column] = valid ? a.t1[(token + row) * a.width + column] : to_element<T>(0);
  }
}

// A tile of columns of an output and a chunk of its rank. Each block with the same tokens processes every gridDim.y-th
// tile.
template <class T, int rows>
struct FusedStep {
  const FusedForward<T>& a;
  int output = 0, tile, chunk = 0;

  __device__ explicit FusedStep(const FusedForward<T>& a) : a(a), tile(static_cast<int>(blockIdx.y)) { settle(); }
  __device__ bool done() const { return output >= a.outputs; }
  __device__ const FusedOutput<T>& out() const { return a.output[output]; }
  __device__ int column() const { return tile * FusedTile<T, rows>::columns; }
  __device__ int depth() const {
    return min(fused_rank, out().rank - chunk * fused_rank);
  }  // 0: the output is its bias
  __device__ bool is_last_chunk() const { return (chunk + 1) * fused_rank >= out().rank; }
  __device__ void advance() {
    if (!is_last_chunk()) {
      ++chunk;
      return;
    }
    chunk = 0;
    tile += static_cast<int>(gridDim.y);
    settle();
  }
  __device__ void settle() {
    for (; output < a.outputs; ++output) {
      const int tiles = (a.output[output].columns + FusedTile<T, rows>::columns - 1) / FusedTile<T, rows>::columns;
      if (tile < tiles) return;
      tile -= tiles;
    }
  }
};

template <class T, int rows>
__device__ void fetch_right(const FusedStep<T, rows>& step, T* to) {
  constexpr int lanes = lanes_of_vector<T>, across = FusedTile<T, rows>::columns / lanes;
  const FusedOutput<T>& o = step.out();
  for (int v = static_cast<int>(threadIdx.x); v < step.depth() * across; v += fused_threads) {
    const int row = v / across, column = v % across * lanes;
    const bool valid = step.column() + column < o.columns;
    const T* const from =
        o.right + static_cast<std::int64_t>(step.chunk * fused_rank + row) * o.columns + step.column() + column;
    copy_async(to + row * FusedTile<T, rows>::b_pitch + column, valid ? from : o.right, valid);
  }
}

// Applies bias and activation and stores y, 16 bytes at a time.
template <class T, int rows>
__device__ void write_tile(const FusedForward<T>& a, const FusedStep<T, rows>& step, std::int64_t token,
                           const float* out) {
  constexpr int lanes = lanes_of_vector<T>, across = FusedTile<T, rows>::columns / lanes;
  const FusedOutput<T>& o = step.out();
  for (int v = static_cast<int>(threadIdx.x); v < rows * across; v += fused_threads) {
    const int row = v / across, column = step.column() + v % across * lanes;
    if (token + row >= a.tokens || column >= o.columns) continue;
    float value[lanes];
#pragma unroll
    for (int j = 0; j < lanes; j += 4)
      load_floats<4>(out + row * FusedTile<T, rows>::out_pitch + v % across * lanes + j, value + j);
    const std::int64_t at = (token + row) * o.ld + column;
#pragma unroll
    for (int j = 0; j < lanes; ++j) value[j] += o.bias ? o.bias[column + j] : 0.0f;
    if (o.pre) store_floats<lanes>(value, o.pre + at);
    with_constant(a.activation, [&](auto activation) {
#pragma unroll
      for (int j = 0; j < lanes; ++j) value[j] = activate<T>(activation(), value[j]);
    });
    store_floats<lanes>(value, o.y + at);
  }
}

template <class T, int rows>
__device__ void second_product(const FusedForward<T>& a, const FusedTile<T, rows>& tile, std::int64_t token,
                               const T* t1, T* right, float* out) {
  using Shape = FusedTile<T, rows>;
  constexpr int buffer = fused_rank * Shape::b_pitch;
  const int warp = static_cast<int>(threadIdx.x) / warp_size, row_part = warp % Shape::row_parts,
            strip = warp / Shape::row_parts;
  FusedStep<T, rows> step(a), next(a);
  if (!next.done()) fetch_right(next, right);
  commit_copies();
  WarpTile sum;
  sum.clear();
  for (int turn = 0; !step.done(); turn ^= 1) {
    next.advance();
    wait_for_copies<0>();
    __syncthreads();  // the chunk is complete for all threads; the other buffer and `out` are free
    if (!next.done()) fetch_right(next, right + (turn ^ 1) * buffer);
    commit_copies();
    multiply<false>(sum, t1 + row_part * warp_tile * tile.pitch() + step.out().offset + step.chunk * fused_rank,
                    tile.pitch(), right + turn * buffer + strip * warp_tile, Shape::b_pitch, step.depth());
    if (step.is_last_chunk()) {
      sum.for_pairs([&](int row, int column, float p, float q) {
        float* to = out + (row_part * warp_tile + row) * Shape::out_pitch + strip * warp_tile + column;
        to[0] = p, to[1] = q;
      });
      sum.clear();
      __syncthreads();
      write_tile(a, step, token, out);
    }
    step.advance();
  }
  wait_for_copies<0>();
}

template <class T, int rows>
__global__ void __launch_bounds__(fused_threads, 2) tt_forward_fused(const FusedForward<T> __grid_constant__ a) {
  begin_kernel();
  const FusedTile<T, rows> tile(a.width);
  unsigned char* const shared = shared_memory<unsigned char>();
  T* const t1 = reinterpret_cast<T*>(shared);
  T* const parts = reinterpret_cast<T*>(shared + tile.t1_bytes());
  const std::int64_t token = static_cast<std::int64_t>(blockIdx.x) * rows;
  a.t1_is_given ? take_t1(a, tile, token, t1) : first_product(a, tile, token, t1, parts);
  second_product(a, tile, token, t1, parts,
                 reinterpret_cast<float*>(parts + 2 * fused_rank * FusedTile<T, rows>::b_pitch));
}

// The fused path reads and writes 16 bytes at a time.
template <class T>
bool can_fuse(const TtLinearForward& a) {
  constexpr std::int64_t lanes = lanes_of_vector<T>, limit = (std::int64_t{1} << 30);
  bool can = a.width > 0 && a.in < limit && a.width < limit;
  if (!a.t1_is_given)
    can &= a.in % lanes == 0 && rows_are_aligned<T>(a.x, a.ldx) && rows_are_aligned<T>(a.left, a.width);
  for (int i = 0; i < a.outputs; ++i) {
    const TtOutput& o = a.output[i];
    can &= o.out < limit && o.out % lanes == 0 && rows_are_aligned<T>(o.right, o.out) &&
           rows_are_aligned<T>(o.y, o.ldy) && rows_are_aligned<T>(o.pre, o.ldy) && o.offset % lanes == 0 &&
           o.rank % lanes == 0;
  }
  return can;
}

template <class T>
FusedForward<T> describe_fused(const TtLinearForward& a) {
  FusedForward<T> f;
  f.tokens = a.tokens, f.ldx = a.ldx, f.in = static_cast<int>(a.in), f.width = static_cast<int>(a.width),
  f.outputs = a.outputs;
  f.t1_is_given = a.t1_is_given, f.activation = a.activation, f.x = static_cast<const T*>(a.x),
  f.left = static_cast<const T*>(a.left);
  f.t1 = static_cast<T*>(a.t1);
  for (int i = 0; i < a.outputs; ++i) {
    const TtOutput& o = a.output[i];
    f.output[i] = {static_cast<const T*>(o.right),
                   static_cast<const float*>(o.bias),
                   static_cast<T*>(o.y),
                   static_cast<T*>(o.pre),
                   o.ldy,
                   static_cast<int>(o.out),
                   static_cast<int>(o.rank),
                   static_cast<int>(o.offset)};
  }
  return f;
}

template <class T, int rows>
Status launch_fused(const Context& context, const FusedForward<T>& f) {
  const std::int64_t blocks = blocks_for(f.tokens, rows);
  std::int64_t tiles = 0;
  for (int i = 0; i < f.outputs; ++i) tiles += blocks_for(f.output[i].columns, FusedTile<T, rows>::columns);
  const std::int64_t wanted = blocks == 0 ? 1 : fused_blocks / blocks, across = wanted < 1       ? 1
                                                                                : wanted < tiles ? wanted
                                                                                                 : tiles;
  const Launch where{{static_cast<unsigned>(blocks), static_cast<unsigned>(across)},
                     fused_threads,
                     FusedTile<T, rows>(f.width).bytes()};
  return launch(context, where, tt_forward_fused<T, rows>, f);
}

// Tokens per block; 0 if the fused path does not support the call.
template <class T>
int fused_rows(const TtLinearForward& a) {
  if (!can_fuse<T>(a)) return 0;
  const int width = static_cast<int>(a.width);
  if (sizeof(T) == 2 && a.tokens < many_tokens && FusedTile<T, 32>(width).fits()) return 32;
  return FusedTile<T, 64>(width).fits() ? 64 : 0;
}

// Returns unsupported_shape if the fused path does not support the call.
template <class T>
Status try_fused(const Context& context, const TtLinearForward& a) {
  const int rows = fused_rows<T>(a);
  if constexpr (sizeof(T) == 2)
    if (rows == 32) return launch_fused<T, 32>(context, describe_fused<T>(a));
  return rows == 64 ? launch_fused<T, 64>(context, describe_fused<T>(a)) : Status::unsupported_shape;
}

}  // namespace comera::kernels::cuda
