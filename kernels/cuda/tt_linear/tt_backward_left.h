// Second pass of a TT layer's backward (tt_backward.h). From the parts of U1 of the first pass it computes dx = U1 A^T
// and, if x is set, d_A = x^T U1.
//
// A block has a slice of the columns of x and tiles of 32 tokens; the slice's rows of A stay in shared memory. Each
// warp has 32 columns of all tiles, so d_A stays in its registers until the end. Every slice adds the parts of U1
// again: blocks of the same tokens run at the same time and read them from the L2 cache. A slice is as wide as
// possible with two blocks per processor.
#pragma once

#include "kernels/cuda/tt_linear/tt_backward_right.h"

namespace comera::kernels::cuda {

// teams: threadIdx.y, each with all columns of the slice and every second tile of tokens. `threads` is of a team.
template <class T, int strips_, int teams_ = 1>
struct LeftTile {
  static constexpr int teams = teams_, strips = strips_, warps = sizeof(T) == 2 && strips == 1 ? 8 : 4,
                       threads = warps * warp_size, stages = 2;
  static constexpr int columns = warps * warp_tile, ranks = strips * warp_tile;
  static constexpr int pad = lanes_of_vector<T>, pitch = columns + pad, u1_pitch = ranks + pad,
                       out_pitch = warp_tile + 8;
  static constexpr std::size_t team_bytes =
      sizeof(T) * (back_rows * u1_pitch + stages * back_rows * pitch) + sizeof(float) * warps * back_rows * out_pitch;
  static constexpr std::size_t bytes = sizeof(T) * columns * u1_pitch + teams * team_bytes;
};

struct LeftOutput {
  const float* u1 = nullptr;  // [slices, tokens, rank]
  int rank = 0, offset = 0, slices = 0;
};

// Grid: slices of the columns of x, groups of tiles of tokens.
template <class T>
struct LeftGradient {
  std::int64_t tokens = 0, ldx = 0, lddx = 0;
  int in = 0, width = 0, outputs = 0;
  bool accumulate_dx = false;
  const T *left = nullptr, *x = nullptr;
  T *u1 = nullptr, *dx = nullptr;
  float* d_left = nullptr;  // [groups, in, width]
  LeftOutput output[max_outputs];
};

template <class Tile, class T>
__device__ void fetch_left(const LeftGradient<T>& a, int first, T* to) {
  constexpr int lanes = lanes_of_vector<T>, wide = Tile::ranks / lanes;
  for (int v = static_cast<int>(threadIdx.x); v < Tile::columns * wide; v += Tile::threads) {
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

// U1 of a tile of tokens: the parts of all slices added in order and rounded to T for the products.
template <class Tile, class T>
__device__ void add_slices(const LeftGradient<T>& a, std::int64_t token, T* to) {
  constexpr int wide = Tile::ranks / 4;
  for (int v = static_cast<int>(threadIdx.x); v < back_rows * wide; v += Tile::threads) {
    const int row = v / wide, column = v % wide * 4;
    float total[4] = {}, part[4];
    if (token + row < a.tokens && column < a.width) {
      int i = 0;
      while (i + 1 < a.outputs && column >= a.output[i].offset + a.output[i].rank) ++i;
      const LeftOutput& o = a.output[i];
      const float* from = o.u1 + (token + row) * o.rank + column - o.offset;
#pragma unroll(Tile::strips == 1 ? 8 : 4)
      for (int slice = 0; slice < o.slices; ++slice, from += a.tokens * o.rank) {
        load_floats<4>(from, part);
#pragma unroll
        for (int j = 0; j < 4; ++j) total[j] += part[j];
      }
      if (blockIdx.x == 0) store_floats<4>(total, a.u1 + (token + row) * a.width + column);
    }
    store_floats<4>(total, to + row * Tile::u1_pitch + column);
  }
}

// A lane's 16-byte vectors of a warp's tile of dx.
template <class T>
struct LaneVectors {
  static constexpr int lanes = lanes_of_vector<T>, wide = warp_tile / lanes, count = back_rows * wide / warp_size;
  Elements<T, lanes> vector[count];

  // f(vector, row, first column) for the vectors inside dx
  template <class F>
  __device__ void for_inside(const LeftGradient<T>& a, int first, std::int64_t token, const F& f) {
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const int v = static_cast<int>(threadIdx.x) % warp_size + i * warp_size, row = v / wide,
                column = v % wide * lanes;
      if (token + row < a.tokens && first + column < a.in) f(vector[i], row, column);
    }
  }
};

// The previous dx, if the product is added to it. Loaded before the product, so that the load overlaps with it.
template <class T>
__device__ LaneVectors<T> load_dx(const LeftGradient<T>& a, int first, std::int64_t token) {
  LaneVectors<T> before = {};
  if (a.accumulate_dx)
    before.for_inside(a, first, token, [&](auto& vector, int row, int column) {
      vector =
          *reinterpret_cast<const Elements<T, lanes_of_vector<T>>*>(a.dx + (token + row) * a.lddx + first + column);
    });
  return before;
}

// Writes a warp's columns of a tile of dx. They pass through the warp's shared memory, so that global memory is
// accessed 16 bytes at a time.
template <class Tile, class T>
__device__ void write_dx(const LeftGradient<T>& a, const WarpTile& tile, LaneVectors<T>& before, int first,
                         std::int64_t token, float* out) {
  constexpr int lanes = lanes_of_vector<T>;
  tile.for_pairs([&](int row, int column, float p, float q) {
    float* const to = out + row * Tile::out_pitch + column;
    to[0] = p, to[1] = q;
  });
  __syncwarp();
  before.for_inside(a, first, token, [&](const auto& vector, int row, int column) {
    float value[lanes];
#pragma unroll
    for (int j = 0; j < lanes; j += 4) load_floats<4>(out + row * Tile::out_pitch + column + j, value + j);
#pragma unroll
    for (int j = 0; j < lanes; ++j) value[j] += to_float(vector.element[j]);
    store_floats<lanes>(value, a.dx + (token + row) * a.lddx + first + column);
  });
  __syncwarp();
}

template <class T, int strips, int teams>
__global__ void __launch_bounds__(teams* LeftTile<T, strips>::threads)
    tt_backward_left(const LeftGradient<T> __grid_constant__ a, const GroupSums<> __grid_constant__ right_sums) {
  begin_kernel();
  add_sums(right_sums);
  using Tile = LeftTile<T, strips, teams>;
  const int warp = static_cast<int>(threadIdx.x) / warp_size, first = static_cast<int>(blockIdx.x) * Tile::columns,
            own = warp * warp_tile, team = static_cast<int>(threadIdx.y);
  const TileRange<teams> tiles(a.tokens, blockIdx.y, gridDim.y);
  T* const left = shared_memory<T>();
  auto* const u1 =
      reinterpret_cast<T*>(reinterpret_cast<char*>(left + Tile::columns * Tile::u1_pitch) + team * Tile::team_bytes);
  T* const places = u1 + back_rows * Tile::u1_pitch;
  float* const out =
      reinterpret_cast<float*>(places + Tile::stages * back_rows * Tile::pitch) + warp * back_rows * Tile::out_pitch;
  WarpTile d_left[strips];
#pragma unroll
  for (int s = 0; s < strips; ++s) d_left[s].clear();
  if (a.dx && team == 0) fetch_left<Tile>(a, first, left);  // complete when the first tile is
  const auto fetch = [&](int c, int place) {
    if (a.x) fetch_input<Tile>(a, first, tiles.token(c, team), places + place * back_rows * Tile::pitch);
  };
  for_chunks<Tile::stages>(tiles.passes(), fetch, [&](int c, int place) {
    const std::int64_t token = tiles.token(c, team);
    add_slices<Tile>(a, token, u1);
    __syncthreads();
    if (a.dx) {
      LaneVectors<T> before = load_dx(a, first + own, token);
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
  });
  if (!a.x) return;
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
