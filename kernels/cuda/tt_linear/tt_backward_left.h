// Second pass of a TT layer's backward (tt_backward.h). From the parts of U1 of the first pass it computes dx = U1 A^T
// and, if x is set, d_A = x^T U1.
//
// A block has a slice of the columns of x and tiles of 32 tokens; the slice's rows of A stay in shared memory. Each
// warp has 32 columns of all tiles, so d_A stays in its registers until the end. Every slice adds the parts of U1
// again: blocks of the same tokens run at the same time and read them from the L2 cache. A slice is as wide as
// possible with two blocks per processor.
#pragma once

#include <climits>

#include "kernels/cuda/common/eights.h"
#include "kernels/cuda/tt_linear/tt_backward_right.h"

namespace comera::kernels::cuda {

// teams: threadIdx.y, each with all columns of the slice and every second tile of tokens. `threads` is of a team.
template <class T, int strips_, int teams_ = 1>
struct LeftTile {
  static constexpr int teams = teams_, strips = strips_, warps = sizeof(T) == 2 && strips == 1 ? 8 : 4,
                       threads = warps * warp_size;
  // Two teams have a processor to themselves: the copies of two tiles are in flight, not of one.
  static constexpr int stages = teams > 1 ? 3 : 2;
  static constexpr int columns = warps * warp_tile, ranks = strips * warp_tile;
  static constexpr int pad = lanes_of_vector<T>, pitch = columns + pad, u1_pitch = ranks + pad,
                       out_pitch = warp_tile + 8;
  static constexpr std::size_t team_bytes =
      sizeof(T) * (back_rows * u1_pitch + stages * back_rows * pitch) + sizeof(float) * warps * back_rows * out_pitch;
  static constexpr std::size_t bytes = sizeof(T) * columns * u1_pitch + teams * team_bytes;
};

struct LeftOutput {
  int offset = INT_MAX, slices = 0;  // without a column unless set
};

// Grid: slices of the columns of x, groups of tiles of tokens; further rows of blocks only add sums.
template <class T>
struct LeftGradient {
  std::int64_t tokens = 0, ldx = 0, lddx = 0;
  int in = 0, width = 0, slices = 0;  // slices: of the output that has most
  unsigned groups = 1;
  bool accumulate_dx = false;
  const T *left = nullptr, *x = nullptr;
  T *u1 = nullptr, *dx = nullptr;
  const float* parts = nullptr;  // of U1: [slices, tokens, width]
  float* d_left = nullptr;       // [groups, in, width]
  LeftOutput output[max_outputs];
};

template <class Tile, class T>
__device__ void fetch_left(const LeftGradient<T>& a, int first, T* to) {
  constexpr int lanes = lanes_of_vector<T>, wide = Tile::ranks / lanes;
  constexpr int all = Tile::teams * Tile::threads;
  for (int v = static_cast<int>(threadIdx.y) * Tile::threads + static_cast<int>(threadIdx.x); v < Tile::columns * wide;
       v += all) {
    const int row = first + v / wide, column = v % wide * lanes;
    const bool valid = row < a.in && column < a.width;
    copy_async(to + v / wide * Tile::u1_pitch + column,
               valid ? a.left + static_cast<std::int64_t>(row) * a.width + column : a.left, valid);
  }
}

template <class Tile, class T>
__device__ void fetch_input(const LeftGradient<T>& a, int first, std::int64_t token, T* to) {
  copy_rows<back_rows, Tile::columns / lanes_of_vector<T>, Tile::pitch, Tile::threads>(
      to, a.x + token * a.ldx + first, a.ldx, a.tokens - token, a.in - first);
}

// The number of parts of a column of U1. Unrolled: a loop would wait for each output's numbers in turn.
template <class T>
__device__ int slices_of(const LeftGradient<T>& a, int column) {
  int slices = a.output[0].slices;
#pragma unroll
  for (int i = 1; i < max_outputs; ++i)
    if (column >= a.output[i].offset) slices = a.output[i].slices;
  return column < a.width ? slices : 0;
}

// U1 of a tile of tokens: the parts of all slices added in order and rounded to T for the products. A thread loads
// `most` parts of 16 bytes, all of one row, before it adds the first one: each wait costs more than all additions.
template <class Tile, class T>
__device__ void add_slices(const LeftGradient<T>& a, std::int64_t token, T* to) {
  constexpr int most = Tile::strips == 3 && sizeof(T) == 2 ? 18 : 12;  // as many as there are registers
  constexpr int lanes_of_row = Tile::threads / back_rows, step = 4 * lanes_of_row, count = Tile::ranks / step,
                vectors = Tile::strips == 3 ? most / 9 * 3
                          : count % 2 == 0  ? 2
                                            : 1,
                parts = most / vectors;
  static_assert(Tile::ranks % step == 0 && count % vectors == 0);
  const int thread = static_cast<int>(threadIdx.x), row = thread / lanes_of_row;
  const bool inside = token + row < a.tokens;
#pragma unroll 1
  for (int column = thread % lanes_of_row * 4; column < Tile::ranks; column += vectors * step) {
    const float* from = a.parts + (token + row) * a.width + column;
    int slices[vectors];
#pragma unroll
    for (int i = 0; i < vectors; ++i) slices[i] = inside ? slices_of(a, column + i * step) : 0;
    float total[vectors][4] = {};
#pragma unroll 1
    for (int first = 0; first < a.slices; first += parts) {
      float part[vectors][parts][4] = {};
#pragma unroll
      for (int p = 0; p < parts; ++p, from += a.tokens * a.width)
#pragma unroll
        for (int i = 0; i < vectors; ++i)
          if (first + p < slices[i]) load_floats<4>(from + i * step, part[i][p]);
#pragma unroll
      for (int i = 0; i < vectors; ++i)
#pragma unroll
        for (int p = 0; p < parts; ++p)
#pragma unroll
          for (int j = 0; j < 4; ++j) total[i][j] += part[i][p][j];
    }
#pragma unroll
    for (int i = 0; i < vectors; ++i) {
      store_floats<4>(total[i], to + row * Tile::u1_pitch + column + i * step);
      if (blockIdx.x == 0 && inside && column + i * step < a.width)
        store_floats<4>(total[i], a.u1 + (token + row) * a.width + column + i * step);
    }
  }
}

// A lane's 16-byte vectors of a warp's tile of dx.
template <class T>
struct LaneVectors {
  static constexpr int lanes = lanes_of_vector<T>, wide = warp_tile / lanes, count = back_rows * wide / warp_size;
  Stored<T, lanes> vector[count];

  // f(vector, its place in dx, row, first column) for the vectors inside dx
  template <class F>
  __device__ void for_inside(const LeftGradient<T>& a, int first, std::int64_t token, const F& f) {
    constexpr int step = warp_size / wide;
    const int lane = static_cast<int>(threadIdx.x) % warp_size, row = lane / wide, column = lane % wide * lanes;
    const int rows = first + column < a.in ? static_cast<int>(min(a.tokens - token, std::int64_t{back_rows})) - row : 0;
    T* const at = a.dx + (token + row) * a.lddx + first + column;
#pragma unroll
    for (int i = 0; i < count; ++i)
      if (i * step < rows) f(vector[i], at + i * step * a.lddx, row + i * step, column);
  }
};

// The previous dx, if the product is added to it. Loaded before the parts of U1, so that one wait serves both.
template <class T>
__device__ LaneVectors<T> load_dx(const LeftGradient<T>& a, int first, std::int64_t token) {
  LaneVectors<T> before = {};
  if (a.dx && a.accumulate_dx)
    before.for_inside(a, first, token, [](auto& vector, const T* at, int, int) { vector.load(at); });
  return before;
}

// Writes a warp's columns of a tile of dx. They pass through the warp's shared memory, so that global memory is
// accessed 16 bytes at a time.
template <class Tile, class T>
__device__ void write_dx(const LeftGradient<T>& a, const WarpTile& tile, LaneVectors<T>& before, int first,
                         std::int64_t token, float* out) {
  constexpr int lanes = lanes_of_vector<T>;
  tile.for_pairs([&](int row, int column, float p, float q) {
    const float pair[2] = {p, q};
    store_floats<2>(pair, out + row * Tile::out_pitch + column);
  });
  __syncwarp();
  before.for_inside(a, first, token, [&](const auto& vector, T* at, int row, int column) {
    float value[lanes];
#pragma unroll
    for (int j = 0; j < lanes; j += 4) load_floats<4>(out + row * Tile::out_pitch + column + j, value + j);
#pragma unroll
    for (int j = 0; j < lanes; ++j) value[j] += vector[j];
    store_floats<lanes>(value, at);
  });
  __syncwarp();
}

template <class T, int strips, int teams>
__global__ void __launch_bounds__(teams* LeftTile<T, strips>::threads)
    tt_backward_left(const LeftGradient<T> __grid_constant__ a, const GroupSums<> __grid_constant__ right_sums) {
  begin_kernel();
  using Tile = LeftTile<T, strips, teams>;
  const int warp = static_cast<int>(threadIdx.x) / warp_size, first = static_cast<int>(blockIdx.x) * Tile::columns,
            own = warp * warp_tile, team = static_cast<int>(threadIdx.y);
  const TileRange<teams> tiles(a.tokens, blockIdx.y, a.groups);
  T* const left = shared_memory<T>();
  auto* const u1 =
      reinterpret_cast<T*>(reinterpret_cast<char*>(left + Tile::columns * Tile::u1_pitch) + team * Tile::team_bytes);
  T* const places = u1 + back_rows * Tile::u1_pitch;
  float* const out =
      reinterpret_cast<float*>(places + Tile::stages * back_rows * Tile::pitch) + warp * back_rows * Tile::out_pitch;
  WarpTile d_left[strips];
#pragma unroll
  for (int s = 0; s < strips; ++s) d_left[s].clear();
  if (a.dx && tiles.count > 0) fetch_left<Tile>(a, first, left);  // complete when the first tile is
  const auto fetch = [&](int c, int place) {
    if (a.x) fetch_input<Tile>(a, first, tiles.token(c, team), places + place * back_rows * Tile::pitch);
  };
  const auto use = [&](int c, int place) {
    const std::int64_t token = tiles.token(c, team);
    LaneVectors<T> before = load_dx(a, first + own, token);
    add_slices<Tile>(a, token, u1);
    __syncthreads();
    if (a.dx) {
      WarpTile dx;
      dx.clear();
      multiply<true>(dx, u1, Tile::u1_pitch, left + own * Tile::u1_pitch, Tile::u1_pitch, Tile::ranks);
      write_dx<Tile>(a, dx, before, first + own, token, out);
    }
    if (!a.x) return;
    const T* const x = places + place * back_rows * Tile::pitch + own;
#pragma unroll
    for (int s = 0; s < strips; ++s)
      multiply_turned(d_left[s], x, Tile::pitch, u1 + s * warp_tile, Tile::u1_pitch, back_rows);
  };
  for_chunks<Tile::stages>(tiles.passes(), fetch, use, [&] { add_sums_beside(right_sums, a.groups); });
  if (!a.x || tiles.count == 0) return;
  join_teams<Tile, strips * 32>([&](const auto& f) {
#pragma unroll
    for (int s = 0; s < strips; ++s) d_left[s].for_each(32 * s, f);
  });
  if (team > 0) return;
  float* const to = a.d_left + static_cast<std::int64_t>(blockIdx.y) * a.in * a.width;
#pragma unroll
  for (int s = 0; s < strips; ++s)
    d_left[s].for_pairs([&](int row, int r, float p, float q) {
      if (first + own + row >= a.in || s * warp_tile + r >= a.width) return;
      const float pair[2] = {p, q};
      store_floats<2>(pair, to + static_cast<std::int64_t>(first + own + row) * a.width + s * warp_tile + r);
    });
}

}  // namespace comera::kernels::cuda
