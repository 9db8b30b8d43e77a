// The forward of a TT layer in one launch: T1 = x A stays on the chip, then y_i = act(T1 B_i + b_i) for every output.
//
// A block has 32 tokens. First product: x and A are prefetched asynchronously in chunks along M. The warps split the
// tile of T1 by the inner index and, if it is wide, by columns; the parts' sums are added in a fixed order. Second
// product: each warp has its own tiles of 32 columns of the outputs, fetches its own B in chunks along the rank, and
// waits for no other warp. Values pass through the warp's shared memory, so that activation and stores use 16-byte
// accesses. With many tokens the limit is the memory traffic of x, y and pre; each block reads A and B from the L2
// cache once. With few tokens several blocks share the columns of y and each computes T1 again.
#pragma once

#include "kernels/cuda/common/activation.h"
#include "kernels/cuda/common/tensor_tile.h"
#include "kernels/tt_linear.h"

namespace comera::kernels::cuda {

constexpr int fused_warps = 8, fused_threads = fused_warps * warp_size, fused_rows = warp_tile;
constexpr int fused_strips = 4;                  // the most tiles of 32 columns of T1
constexpr std::size_t fused_shared = 99 * 1024;  // available to a block on every GPU since sm_80
// Blocks that share tokens read x and A and compute T1 once each, so there are no more than fill the processors.
constexpr std::int64_t fused_blocks = processors;

// strips: tiles of T1, 32 columns each. groups: of warps with the same inner index, each with `own` strips.
template <class T, int strips_>
struct FusedTile {
  static constexpr int strips = strips_, groups = strips > 1 ? 2 : 1, own = (strips + groups - 1) / groups;
  static constexpr int parts = fused_warps / groups, depth = sizeof(T) == 2 ? 16 : 8, inner = parts * depth;
  static constexpr int stages = sizeof(T) == 2 ? 4 : 3;
  static constexpr int rank = sizeof(T) == 2 ? 32 : 16;  // per chunk of the second product
  static constexpr int pad = lanes_of_vector<T>;
  static constexpr int x_pitch = inner + pad, b_pitch = warp_tile + pad;
  static constexpr int pitch = strips * warp_tile + pad;  // of A's chunk and of T1
  static constexpr int sum_pitch = warp_tile + 8;         // of a warp's f32 tile
  static constexpr int stage = fused_rows * x_pitch + inner * pitch, buffer = rank * b_pitch;
  static constexpr std::size_t t1_bytes = sizeof(T) * fused_rows * pitch, first_bytes = sizeof(T) * stages * stage,
                               tiles_bytes = sizeof(float) * fused_warps * fused_rows * sum_pitch,
                               second_bytes = tiles_bytes + sizeof(T) * fused_warps * 2 * buffer,
                               bytes = t1_bytes + (first_bytes > second_bytes ? first_bytes : second_bytes);
  static_assert(bytes <= fused_shared);
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
template <class Tile, class T>
__device__ void fetch_inner(const FusedForward<T>& a, std::int64_t token, int chunk, T* to) {
  constexpr int lanes = lanes_of_vector<T>;
  const int first = chunk * Tile::inner;
  copy_rows<fused_rows, Tile::inner / lanes, Tile::x_pitch, fused_threads>(to, a.x + token * a.ldx + first, a.ldx,
                                                                           a.tokens - token, a.in - first);
  const T* const from = a.left + static_cast<std::int64_t>(first) * a.width;
#pragma unroll
  for (int column = 0; column < Tile::strips * warp_tile; column += warp_tile)
    copy_rows<Tile::inner, warp_tile / lanes, Tile::pitch, fused_threads>(
        to + fused_rows * Tile::x_pitch + column, from + column, a.width, a.in - first, a.width - column);
}

// The warp's part of the sums of T1, for its strips.
template <class Tile, class T>
__device__ void first_product(const FusedForward<T>& a, std::int64_t token, T* chunks, WarpTile (&sum)[Tile::own]) {
  const int warp = static_cast<int>(threadIdx.x) / warp_size, inner = warp % Tile::parts * Tile::depth,
            first = warp / Tile::parts * Tile::own;
  for (WarpTile& tile : sum) tile.clear();
  const auto fetch = [&](int chunk, int place) { fetch_inner<Tile>(a, token, chunk, chunks + place * Tile::stage); };
  for_chunks<Tile::stages>((a.in + Tile::inner - 1) / Tile::inner, fetch, [&](int, int place) {
    const T *x = chunks + place * Tile::stage, *left = x + fused_rows * Tile::x_pitch + inner * Tile::pitch;
#pragma unroll
    for (int s = 0; s < Tile::own; ++s)
      if (first + s < Tile::strips)
        multiply<false>(sum[s], x + inner, Tile::x_pitch, left + (first + s) * warp_tile, Tile::pitch, Tile::depth);
  });
}

// Adds the parts of T1, rounds it to T and writes it to shared memory; one of the blocks with these tokens also writes
// it to a.t1.
template <class Tile, class T>
__device__ void add_parts(const FusedForward<T>& a, std::int64_t token, const WarpTile (&sum)[Tile::own], float* tiles,
                          T* t1) {
  constexpr int wide = warp_tile / 4, tile = fused_rows * Tile::sum_pitch;
  static_assert(fused_rows * wide == fused_threads);
  const int thread = static_cast<int>(threadIdx.x), row = thread / wide, in_strip = thread % wide * 4;
#pragma unroll
  for (int s = 0; s < Tile::own; ++s) {
    sum[s].for_pairs([&](int r, int column, float p, float q) {
      const float pair[2] = {p, q};
      store_floats<2>(pair, tiles + thread / warp_size * tile + r * Tile::sum_pitch + column);
    });
    __syncthreads();
#pragma unroll
    for (int group = 0; group < Tile::groups; ++group) {
      const int strip = group * Tile::own + s, column = strip * warp_tile + in_strip;
      if (strip >= Tile::strips) continue;
      float total[4] = {};
#pragma unroll
      for (int p = 0; p < Tile::parts; ++p) {
        float part[4];
        load_floats<4>(tiles + (group * Tile::parts + p) * tile + row * Tile::sum_pitch + in_strip, part);
#pragma unroll
        for (int j = 0; j < 4; ++j) total[j] += part[j];
      }
      store_floats<4>(total, t1 + row * Tile::pitch + column);
      if (blockIdx.y == 0 && token + row < a.tokens && column < a.width)
        store_floats<4>(total, a.t1 + (token + row) * a.width + column);
    }
    __syncthreads();
  }
}

template <class Tile, class T>
__device__ void fetch_t1(const FusedForward<T>& a, std::int64_t token, T* t1) {
#pragma unroll
  for (int column = 0; column < Tile::strips * warp_tile; column += warp_tile)
    copy_rows<fused_rows, warp_tile / lanes_of_vector<T>, Tile::pitch, fused_threads>(
        t1 + column, a.t1 + token * a.width + column, a.width, a.tokens - token, a.width - column);
}

// A tile of 32 columns of an output and a chunk of its rank. The warps of all blocks with the same tokens take the
// tiles in turn.
template <class Tile, class T>
struct FusedStep {
  const FusedForward<T>& a;
  int output = 0, tile, chunk = 0;

  __device__ explicit FusedStep(const FusedForward<T>& a)
      : a(a), tile(static_cast<int>(blockIdx.y * fused_warps + threadIdx.x / warp_size)) {
    settle();
  }
  __device__ bool done() const { return output >= a.outputs; }
  __device__ const FusedOutput<T>& out() const { return a.output[output]; }
  __device__ int column() const { return tile * warp_tile; }
  __device__ int depth() const { return min(Tile::rank, out().rank - chunk * Tile::rank); }  // 0: its bias alone
  __device__ bool is_last_chunk() const { return (chunk + 1) * Tile::rank >= out().rank; }
  __device__ void advance() {
    if (done()) return;
    if (!is_last_chunk()) {
      ++chunk;
      return;
    }
    chunk = 0;
    tile += static_cast<int>(gridDim.y) * fused_warps;
    settle();
  }
  __device__ void settle() {
    for (; output < a.outputs; ++output) {
      const int tiles = (a.output[output].columns + warp_tile - 1) / warp_tile;
      if (tile < tiles) return;
      tile -= tiles;
    }
  }
};

// Starts the copies of a step's B by its warp and advances. There is a group of copies even if no step is left.
template <class Tile, class T>
__device__ void fetch_right(FusedStep<Tile, T>& step, T* to) {
  if (!step.done()) {
    const FusedOutput<T>& o = step.out();
    const int row = step.chunk * Tile::rank;
    copy_rows<Tile::rank, warp_tile / lanes_of_vector<T>, Tile::b_pitch, warp_size>(
        to, o.right + static_cast<std::int64_t>(row) * o.columns + step.column(), o.columns, o.rank - row,
        o.columns - step.column(), static_cast<int>(threadIdx.x) % warp_size);
    step.advance();
  }
  commit_copies();
}

// The biases of a lane's columns in write_tile().
template <class T>
struct LaneBias {
  float v[lanes_of_vector<T>] = {};

  __device__ LaneBias(const FusedOutput<T>& o, int column) {
    if (!o.bias || column >= o.columns) return;
#pragma unroll
    for (int j = 0; j < lanes_of_vector<T>; ++j) v[j] = o.bias[column + j];
  }
};

// Applies bias and activation to a warp's tile and stores y, 16 bytes at a time.
template <class Tile, class T>
__device__ void write_tile(const FusedForward<T>& a, const FusedOutput<T>& o, const LaneBias<T>& bias,
                           std::int64_t token, int column, const float* from) {
  constexpr int lanes = lanes_of_vector<T>, wide = warp_tile / lanes, step = warp_size / wide;
  const int row = static_cast<int>(threadIdx.x) % warp_size / wide;
  if (column >= o.columns) return;
  from += row * Tile::sum_pitch + column % warp_tile;
  const std::int64_t first = (token + row) * o.ld + column;
  T *const y = o.y + first, *const pre = o.pre ? o.pre + first : nullptr;
  const int rows = static_cast<int>(min(a.tokens - token, std::int64_t{fused_rows})) - row;
  with_constant(a.activation, [&](auto activation) {
#pragma unroll 2
    for (int r = 0; r < rows; r += step) {
      float value[lanes];
#pragma unroll
      for (int j = 0; j < lanes; j += 4) load_floats<4>(from + r * Tile::sum_pitch + j, value + j);
#pragma unroll
      for (int j = 0; j < lanes; ++j) value[j] += bias.v[j];
      if (pre) store_floats<lanes>(value, pre + r * o.ld);
#pragma unroll
      for (int j = 0; j < lanes; ++j) value[j] = activate<T>(activation(), value[j]);
      store_floats<lanes>(value, y + r * o.ld);
    }
  });
}

// All steps of a warp. Two buffers of B are being filled; the warp refills one as soon as it has read it.
template <class Tile, class T>
__device__ void second_product(const FusedForward<T>& a, FusedStep<Tile, T>& next, std::int64_t token, const T* t1,
                               T* right, float* out) {
  const int lane = static_cast<int>(threadIdx.x) % warp_size, in_tile = lane * lanes_of_vector<T> % warp_tile;
  WarpTile sum;
  sum.clear();
  int place = 0;
  for (FusedStep<Tile, T> step(a); !step.done(); step.advance(), place ^= 1) {
    const FusedOutput<T>& o = step.out();
    const int column = step.column() + in_tile;
    const LaneBias<T> bias(o, column);  // loaded while the copies of B arrive
    wait_for_copies<1>();
    __syncwarp();  // the chunk is complete for all lanes, and no lane reads `out`
    multiply<false>(sum, t1 + o.offset + step.chunk * Tile::rank, Tile::pitch, right + place * Tile::buffer,
                    Tile::b_pitch, step.depth());
    __syncwarp();
    fetch_right(next, right + place * Tile::buffer);
    if (!step.is_last_chunk()) continue;
    sum.for_pairs([&](int r, int c, float p, float q) {
      const float pair[2] = {p, q};
      store_floats<2>(pair, out + r * Tile::sum_pitch + c);
    });
    sum.clear();
    __syncwarp();
    write_tile<Tile>(a, o, bias, token, column, out);
  }
  wait_for_copies<0>();
}

template <class T, int strips>
__global__ void __launch_bounds__(fused_threads, 2) tt_forward_fused(const FusedForward<T> __grid_constant__ a) {
  begin_kernel();
  using Tile = FusedTile<T, strips>;
  const int warp = static_cast<int>(threadIdx.x) / warp_size;
  const std::int64_t token = static_cast<std::int64_t>(blockIdx.x) * fused_rows;
  // The f32 tiles and B take the place of the chunks of the first product.
  T *const t1 = shared_memory<T>(), *const chunks = t1 + fused_rows * Tile::pitch;
  float* const tiles = reinterpret_cast<float*>(chunks);
  T* const right = reinterpret_cast<T*>(tiles + fused_warps * fused_rows * Tile::sum_pitch) + warp * 2 * Tile::buffer;
  FusedStep<Tile, T> next(a);
  WarpTile sum[Tile::own];
  if (a.t1_is_given) {
    fetch_t1<Tile>(a, token, t1);
  } else {
    first_product<Tile>(a, token, chunks, sum);
  }
  for (int place = 0; place < 2; ++place) fetch_right(next, right + place * Tile::buffer);
  if (a.t1_is_given) {
    wait_for_copies<1>();
    __syncthreads();
  } else {
    add_parts<Tile>(a, token, sum, tiles, t1);
  }
  second_product<Tile>(a, next, token, t1, right, tiles + warp * fused_rows * Tile::sum_pitch);
}

// The fused path reads and writes 16 bytes at a time.
template <class T>
bool can_fuse(const TtLinearForward& a) {
  constexpr std::int64_t lanes = lanes_of_vector<T>, limit = (std::int64_t{1} << 30);
  bool can = a.width > 0 && a.width <= fused_strips * warp_tile && a.in < limit && rows_are_aligned<T>(a.t1, a.width);
  if (!a.t1_is_given)
    can &= a.in % lanes == 0 && rows_are_aligned<T>(a.x, a.ldx) && rows_are_aligned<T>(a.left, a.width);
  for (int i = 0; i < a.outputs; ++i) {
    const TtOutput& o = a.output[i];
    can &= o.out < limit && o.out % lanes == 0 && rows_are_aligned<T>(o.right, o.out) &&
           rows_are_aligned<T>(o.y, o.ldy) && rows_are_aligned<T>(o.pre, o.ldy) && o.offset % lanes == 0 &&
           o.rank % inner_step<T> == 0;
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

template <class T, int strips>
Status launch_fused(const Context& context, const FusedForward<T>& f) {
  const std::int64_t blocks = blocks_for(f.tokens, fused_rows);
  std::int64_t tiles = 0;
  for (int i = 0; i < f.outputs; ++i) tiles += blocks_for(f.output[i].columns, warp_tile);
  const std::int64_t wanted = blocks == 0 ? 1 : fused_blocks / blocks, most = blocks_for(tiles, fused_warps);
  const std::int64_t across = wanted < 1 ? 1 : wanted < most ? wanted : most;
  const Launch where{
      {static_cast<unsigned>(blocks), static_cast<unsigned>(across)}, fused_threads, FusedTile<T, strips>::bytes};
  return launch(context, where, tt_forward_fused<T, strips>, f);
}

// Returns unsupported_shape if the fused path does not support the call.
template <class T>
Status try_fused(const Context& context, const TtLinearForward& a) {
  if (!can_fuse<T>(a)) return Status::unsupported_shape;
  const FusedForward<T> f = describe_fused<T>(a);
  switch (blocks_for(a.width, warp_tile)) {
    case 1: return launch_fused<T, 1>(context, f);
    case 2: return launch_fused<T, 2>(context, f);
    case 3: return launch_fused<T, 3>(context, f);
    default: return launch_fused<T, fused_strips>(context, f);
  }
}

}  // namespace comera::kernels::cuda
