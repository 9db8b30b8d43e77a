// The forward of a TT layer in one launch: T1 = x A stays on the chip, then y = act(T1 B + b).
//
// A block has 32 tokens and one output, whose own columns of T1 it computes. First product: x and A are prefetched
// asynchronously in chunks along M. The warps split the tile of T1 by the inner index and, if it is wide, by columns;
// the parts' sums are added in a fixed order. Second product: each warp has its own tiles of 32 columns of the output,
// fetches its own B in chunks along the rank, and waits for no other warp. Values pass through the warp's shared
// memory, so that activation and stores use 16-byte accesses. A multiprocessor has several blocks, in different phases,
// if the outputs are several or wide; then their reads of x, A and B from the L2 cache count as much as the memory
// traffic of x, y and pre. With few tokens several blocks share the columns of y and each computes T1 again.
#pragma once

#include <algorithm>

#include "kernels/cuda/common/activation.h"
#include "kernels/cuda/common/tensor_tile.h"
#include "kernels/tt_linear.h"

namespace comera::kernels::cuda {

constexpr int fused_warps = 8, fused_threads = fused_warps * warp_size, fused_rows = warp_tile;
constexpr int fused_strips = 4;                  // the most tiles of 32 columns of T1
constexpr std::size_t fused_shared = 99 * 1024;  // available to a block on every GPU since sm_80

// strips: tiles of T1, 32 columns each. groups: of warps with the same inner index, each with `own` strips. buffers: of
// a warp for B; one is enough if each tile of y is one chunk, because it arrives while the tile before is written.
template <class T, int strips_>
struct FusedTile {
  static constexpr int strips = strips_, groups = strips > 1 ? 2 : 1, own = (strips + groups - 1) / groups;
  static constexpr int parts = fused_warps / groups, depth = sizeof(T) == 2 ? 16 : 8, inner = parts * depth;
  static constexpr int stages = sizeof(T) == 2 ? 4 : 3;
  static constexpr int rank = sizeof(T) == 2 ? 32 : 16;  // per chunk of the second product
  static constexpr int buffers = strips * warp_tile > rank ? 2 : 1;
  static constexpr int pad = lanes_of_vector<T>;
  static constexpr int x_pitch = inner + pad, b_pitch = warp_tile + pad;
  static constexpr int pitch = strips * warp_tile + pad;  // of A's chunk and of T1
  static constexpr int sum_pitch = warp_tile + 8;         // of a warp's f32 tile
  static constexpr int t1 = fused_rows * pitch, tile = fused_rows * sum_pitch;
  static constexpr int stage = fused_rows * x_pitch + inner * pitch, buffer = rank * b_pitch;
  static constexpr std::size_t first_bytes = sizeof(T) * stages * stage,
                               second_bytes = sizeof(T) * (t1 + fused_warps * buffers * buffer) +
                                              sizeof(float) * fused_warps * tile;
  static constexpr std::size_t bytes = std::max(first_bytes, second_bytes);
  static constexpr int resident = sizeof(T) == 2 && strips == 1 ? 3 : 2;  // blocks on a multiprocessor
  static_assert(bytes <= fused_shared && resident * (bytes + 1024) <= 228 * 1024);
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

// The same element of the chunk after the one at `place`. A pointer that moves costs less than one that is computed
// from the start of the shared memory, which the compiler reads from a special register in each pass.
template <class Tile, class P>
__device__ P* next_chunk(P* element, int place) {
  return place + 1 < Tile::stages ? element + Tile::stage : element - (Tile::stages - 1) * Tile::stage;
}

// A thread's copies of x and A to shared memory, chunk by chunk, zero outside. Its addresses advance by sums: few
// instructions in the loop along M, in which each pass waits for its own chain of instructions.
template <class Tile, class T>
struct InnerCopies {
  static constexpr int lanes = lanes_of_vector<T>, x_wide = Tile::inner / lanes, x_step = fused_threads / x_wide,
                       left_wide = warp_tile / lanes, left_step = fused_threads / left_wide;
  static_assert(fused_rows % x_step == 0 && Tile::inner % left_step == 0);
  const FusedForward<T>& a;
  const T *x, *left;            // the next chunk's
  std::int64_t left_chunk;      // the distance of chunks of A
  int column, row;              // along M
  int rows_left, columns_left;  // of x and of A
  T *x_to, *left_to;

  __device__ InnerCopies(const FusedForward<T>& a, const FusedOutput<T>& o, std::int64_t token, T* chunks) : a(a) {
    const int thread = static_cast<int>(threadIdx.x), x_row = thread / x_wide, left_column = thread % left_wide * lanes;
    column = thread % x_wide * lanes, row = thread / left_wide;
    x = a.x + (token + x_row) * a.ldx + column;
    left = a.left + static_cast<std::int64_t>(row) * a.width + o.offset + left_column;
    left_chunk = static_cast<std::int64_t>(Tile::inner) * a.width;
    rows_left = static_cast<int>(min(a.tokens - token, std::int64_t{fused_rows})) - x_row;
    columns_left = o.rank - left_column;
    x_to = chunks + x_row * Tile::x_pitch + column;
    left_to = chunks + fused_rows * Tile::x_pitch + row * Tile::pitch + left_column;
  }
  __device__ void start(int place) {
#pragma unroll
    for (int r = 0; r < fused_rows; r += x_step) {
      const bool valid = r < rows_left && column < a.in;
      copy_async(x_to + r * Tile::x_pitch, valid ? x + r * a.ldx : a.x, valid);
    }
#pragma unroll
    for (int r = 0; r < Tile::inner; r += left_step)
#pragma unroll
      for (int c = 0; c < Tile::strips * warp_tile; c += warp_tile) {
        const bool valid = row + r < a.in && c < columns_left;
        copy_async(left_to + r * Tile::pitch + c, valid ? left + static_cast<std::int64_t>(r) * a.width + c : a.left,
                   valid);
      }
    x += Tile::inner, left += left_chunk;
    column += Tile::inner, row += Tile::inner;
    x_to = next_chunk<Tile>(x_to, place), left_to = next_chunk<Tile>(left_to, place);
  }
};

// The warp's part of the sums of T1, for its strips.
template <class Tile, class T>
__device__ void first_product(const FusedForward<T>& a, const FusedOutput<T>& o, std::int64_t token, T* chunks,
                              WarpTile (&sum)[Tile::own]) {
  const int warp = static_cast<int>(threadIdx.x) / warp_size, inner = warp % Tile::parts * Tile::depth,
            first = warp / Tile::parts * Tile::own;
  for (WarpTile& tile : sum) tile.clear();
  InnerCopies<Tile, T> copies(a, o, token, chunks);
  const auto fetch = [&](int, int place) { copies.start(place); };
  const T* chunk = chunks;
  for_chunks<Tile::stages>((a.in + Tile::inner - 1) / Tile::inner, fetch, [&](int, int place) {
    const T *const x = chunk + inner, *const left = chunk + fused_rows * Tile::x_pitch + inner * Tile::pitch;
#pragma unroll
    for (int s = 0; s < Tile::own; ++s)
      if (Tile::own * Tile::groups == Tile::strips || first + s < Tile::strips)
        multiply<false>(sum[s], x, Tile::x_pitch, left + (first + s) * warp_tile, Tile::pitch, Tile::depth);
    chunk = next_chunk<Tile>(chunk, place);
  });
}

// Adds the parts of T1, rounds it to T and writes it to shared memory; one of the blocks with these tokens and this
// output also writes it to a.t1.
template <class Tile, class T>
__device__ void add_parts(const FusedForward<T>& a, const FusedOutput<T>& o, std::int64_t token,
                          const WarpTile (&sum)[Tile::own], float* tiles, T* t1) {
  constexpr int wide = warp_tile / 4;
  static_assert(fused_rows * wide == fused_threads);
  const int thread = static_cast<int>(threadIdx.x), row = thread / wide, in_strip = thread % wide * 4;
#pragma unroll
  for (int s = 0; s < Tile::own; ++s) {
    sum[s].for_pairs([&](int r, int column, float p, float q) {
      const float pair[2] = {p, q};
      store_floats<2>(pair, tiles + thread / warp_size * Tile::tile + r * Tile::sum_pitch + column);
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
        load_floats<4>(tiles + (group * Tile::parts + p) * Tile::tile + row * Tile::sum_pitch + in_strip, part);
#pragma unroll
        for (int j = 0; j < 4; ++j) total[j] += part[j];
      }
      store_floats<4>(total, t1 + row * Tile::pitch + column);
      if (blockIdx.y == 0 && token + row < a.tokens && column < o.rank)
        store_floats<4>(total, a.t1 + (token + row) * a.width + o.offset + column);
    }
    __syncthreads();
  }
}

template <class Tile, class T>
__device__ void fetch_t1(const FusedForward<T>& a, const FusedOutput<T>& o, std::int64_t token, T* t1) {
#pragma unroll
  for (int column = 0; column < Tile::strips * warp_tile; column += warp_tile)
    copy_rows<fused_rows, warp_tile / lanes_of_vector<T>, Tile::pitch, fused_threads>(
        t1 + column, a.t1 + token * a.width + o.offset + column, a.width, a.tokens - token, o.rank - column);
}

// A tile of 32 columns of the output and a chunk of its rank. The warps of all blocks with the same tokens take the
// tiles in turn.
template <class Tile>
struct FusedStep {
  int column = first(), chunk = 0;

  static __device__ int first() {
    return static_cast<int>(blockIdx.y * fused_warps + threadIdx.x / warp_size) * warp_tile;
  }
  static __device__ int stride() { return static_cast<int>(gridDim.y) * fused_warps * warp_tile; }
  __device__ void advance(int rank) {
    if (++chunk * Tile::rank < rank) return;
    chunk = 0, column += stride();
  }
};

// Starts the copies of a step's B by its warp and advances. There is a group of copies even if no step is left.
template <class Tile, class T>
__device__ void fetch_right(const FusedOutput<T>& o, FusedStep<Tile>& step, T* to) {
  if (step.column < o.columns) {
    const int row = step.chunk * Tile::rank;
    copy_rows<Tile::rank, warp_tile / lanes_of_vector<T>, Tile::b_pitch, warp_size>(
        to, o.right + static_cast<std::int64_t>(row) * o.columns + step.column, o.columns, o.rank - row,
        o.columns - step.column, static_cast<int>(threadIdx.x) % warp_size);
    step.advance(o.rank);
  }
  commit_copies();
}

// The bias of a lane's column of a tile.
template <class T>
__device__ float bias_of(const FusedOutput<T>& o, int tile) {
  const int column = tile + static_cast<int>(threadIdx.x) % warp_size;
  return o.bias && column < o.columns ? o.bias[column] : 0;
}

// Applies bias and activation to a warp's tile and stores y, 16 bytes at a time. The biases of 8 columns are at the end
// of a row.
template <class Tile, class T>
__device__ void write_tile(const FusedForward<T>& a, const FusedOutput<T>& o, std::int64_t token, int tile,
                           const float* from) {
  constexpr int lanes = lanes_of_vector<T>, wide = warp_tile / lanes, step = warp_size / wide;
  const int lane = static_cast<int>(threadIdx.x) % warp_size, row = lane / wide, in_tile = lane % wide * lanes,
            column = tile + in_tile;
  if (column >= o.columns) return;
  float bias[lanes];
#pragma unroll
  for (int j = 0; j < lanes; j += 4)
    load_floats<4>(from + in_tile / 8 * Tile::sum_pitch + warp_tile + in_tile % 8 + j, bias + j);
  from += row * Tile::sum_pitch + in_tile;
  std::int64_t at = (token + row) * o.ld + column;
  const int rows = static_cast<int>(min(a.tokens - token, std::int64_t{fused_rows})) - row;
  with_constant(a.activation, [&](auto activation) {
#pragma unroll 2
    for (int r = 0; r < fused_rows; r += step, at += step * o.ld) {
      if (r >= rows) break;
      float value[lanes];
#pragma unroll
      for (int j = 0; j < lanes; j += 4) load_floats<4>(from + r * Tile::sum_pitch + j, value + j);
#pragma unroll
      for (int j = 0; j < lanes; ++j) value[j] += bias[j];
      if (o.pre) store_floats<lanes>(value, o.pre + at);
#pragma unroll
      for (int j = 0; j < lanes; ++j) value[j] = activate<T>(activation(), value[j]);
      store_floats<lanes>(value, o.y + at);
    }
  });
}

// All tiles of a warp, which refills a buffer of B as soon as it has read it. T1 and B are zero beyond the rank, so
// that every chunk has the same depth.
template <class Tile, class T>
__device__ void second_product(const FusedForward<T>& a, const FusedOutput<T>& o, float bias, FusedStep<Tile>& next,
                               std::int64_t token, const T* t1, T* right, float* out) {
  const int lane = static_cast<int>(threadIdx.x) % warp_size,
            chunks = Tile::buffers == 1 ? 1 : max((o.rank + Tile::rank - 1) / Tile::rank, 1);
  int place = 0;
  for (int column = FusedStep<Tile>::first(); column < o.columns; column += FusedStep<Tile>::stride()) {
    WarpTile sum;
    sum.clear();
    for (int chunk = 0; chunk < chunks; ++chunk) {
      wait_for_copies<Tile::buffers - 1>();
      __syncwarp();  // the chunk is complete for all lanes, and no lane reads `out`
      multiply<false>(sum, t1 + chunk * Tile::rank, Tile::pitch, right + place * Tile::buffer, Tile::b_pitch,
                      Tile::rank);
      __syncwarp();
      fetch_right(o, next, right + place * Tile::buffer);
      place = (place + 1) % Tile::buffers;
    }
    sum.for_pairs([&](int r, int c, float p, float q) {
      const float pair[2] = {p, q};
      store_floats<2>(pair, out + r * Tile::sum_pitch + c);
    });
    out[lane / 8 * Tile::sum_pitch + warp_tile + lane % 8] = bias;
    __syncwarp();
    bias = bias_of(o, column + FusedStep<Tile>::stride());  // in time for the next tile
    write_tile<Tile>(a, o, token, column, out);
  }
  wait_for_copies<0>();
}

template <class T, int strips>
__global__ void __launch_bounds__(fused_threads, FusedTile<T, strips>::resident)
    tt_forward_fused(const FusedForward<T> __grid_constant__ a) {
  begin_kernel();
  using Tile = FusedTile<T, strips>;
  const FusedOutput<T>& o = a.output[blockIdx.z];
  const int warp = static_cast<int>(threadIdx.x) / warp_size;
  const std::int64_t token = static_cast<std::int64_t>(blockIdx.x) * fused_rows;
  // T1, the f32 tiles and B take the place of the chunks of the first product.
  T *const t1 = shared_memory<T>(), *const chunks = t1;
  float* const tiles = reinterpret_cast<float*>(t1 + Tile::t1);
  T* const right = reinterpret_cast<T*>(tiles + fused_warps * Tile::tile) + warp * Tile::buffers * Tile::buffer;
  WarpTile sum[Tile::own];
  if (a.t1_is_given) {
    fetch_t1<Tile>(a, o, token, t1);
  } else {
    first_product<Tile>(a, o, token, chunks, sum);
  }
  FusedStep<Tile> next;
  const float bias = bias_of(o, next.column);
#pragma unroll
  for (int place = 0; place < Tile::buffers; ++place) fetch_right(o, next, right + place * Tile::buffer);
  if (a.t1_is_given) {
    wait_for_copies<Tile::buffers - 1>();
    __syncthreads();
  } else {
    add_parts<Tile>(a, o, token, sum, tiles, t1);
  }
  second_product<Tile>(a, o, bias, next, token, t1, right, tiles + warp * Tile::tile);
}

// The fused path reads and writes 16 bytes at a time.
template <class T>
bool can_fuse(const TtLinearForward& a) {
  constexpr std::int64_t lanes = lanes_of_vector<T>, limit = (std::int64_t{1} << 30);
  bool can = a.width > 0 && a.width <= fused_strips * warp_tile && a.in < limit && rows_are_aligned<T>(a.t1, a.width);
  if (!a.t1_is_given)
    can &= a.in % lanes == 0 && rows_are_aligned<T>(a.x, a.ldx) && rows_are_aligned<T>(a.left, a.width);
  std::int64_t ranks = 0;
  for (int i = 0; i < a.outputs; ++i) {
    const TtOutput& o = a.output[i];
    ranks += o.rank;
    can &= o.out < limit && o.out % lanes == 0 && rows_are_aligned<T>(o.right, o.out) &&
           rows_are_aligned<T>(o.y, o.ldy) && rows_are_aligned<T>(o.pre, o.ldy) && o.offset % lanes == 0 &&
           o.rank % inner_step<T> == 0;
  }
  return can && ranks == a.width;  // T1 is written by the blocks of its outputs
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

// Blocks that share tokens and an output compute T1 once each. If that is little work beside the columns of y, a
// multiprocessor has two, which wait for different things; a third would read more from the L2 cache than it hides.
template <class T, int strips>
Status launch_fused(const Context& context, const FusedForward<T>& f) {
  const std::int64_t blocks = blocks_for(f.tokens, fused_rows);
  std::int64_t columns = 0;
  for (int i = 0; i < f.outputs; ++i) columns = std::max<std::int64_t>(columns, f.output[i].columns);
  const bool repeats = f.t1_is_given || 2 * static_cast<std::int64_t>(f.in) <= columns;
  const std::int64_t room = (repeats ? 2 : 1) * processors,
                     most = blocks_for(blocks_for(columns, warp_tile), fused_warps),
                     wanted = room / std::max<std::int64_t>(blocks * f.outputs, 1),
                     across = std::max<std::int64_t>(std::min(wanted, most), 1);
  const Launch where{{static_cast<unsigned>(blocks), static_cast<unsigned>(across), static_cast<unsigned>(f.outputs)},
                     fused_threads,
                     FusedTile<T, strips>::bytes};
  return launch(context, where, tt_forward_fused<T, strips>, f);
}

// Returns unsupported_shape if the fused path does not support the call.
template <class T>
Status try_fused(const Context& context, const TtLinearForward& a) {
  if (!can_fuse<T>(a)) return Status::unsupported_shape;
  const FusedForward<T> f = describe_fused<T>(a);
  std::int64_t widest = 0;
  for (int i = 0; i < a.outputs; ++i) widest = std::max(widest, a.output[i].rank);
  switch (blocks_for(widest, warp_tile)) {
    case 0:
    case 1: return launch_fused<T, 1>(context, f);
    case 2: return launch_fused<T, 2>(context, f);
    case 3: return launch_fused<T, 3>(context, f);
    default: return launch_fused<T, fused_strips>(context, f);
  }
}

}  // namespace comera::kernels::cuda
