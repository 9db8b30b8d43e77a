// First pass of a TT layer's backward (tt_backward.h); it reads dy once. d_pre = dy * act'(pre) stays on the chip,
// with `pre` recomputed as T1 B + bias. From it come the column sums, d_B = T1^T d_pre and the slice's part of U1 =
// d_pre B^T.
//
// A block has a slice of an output's columns and tiles of 32 tokens, which are prefetched; the slice's part of B stays
// in shared memory. Each warp has its own columns of all tiles, so d_B stays in its registers until the end. This pass
// adds the parts of U1 over the warps of a block; the second pass adds them over the slices.
#pragma once

#include "kernels/cuda/common/activation.h"
#include "kernels/cuda/common/group_sums.h"
#include "kernels/cuda/common/tensor_tile.h"
#include "kernels/tt_linear.h"

namespace comera::kernels::cuda {

constexpr int back_rows = warp_tile;  // tokens per tile, in both passes

// across: tiles of 32 columns per warp. strips: tiles of 32 that hold the ranks. teams: threadIdx.y, each with all
// columns and every second tile of tokens. `threads` is of a team.
template <class T, int across_, int strips_, int teams_ = 1>
struct RightTile {
  static constexpr int across = across_, strips = strips_, teams = teams_;
  static constexpr int warps = sizeof(T) == 2 && strips == 1 ? 8 : 4, threads = warps * warp_size;
  // A block that has a processor to itself has the copies of two tiles in flight: with one, memory rests while they
  // are used.
  static constexpr int stages = across > 1 || teams > 1 ? 3 : 2;
  static constexpr int columns = warps * across * warp_tile, ranks = strips * warp_tile;
  static constexpr int pad = lanes_of_vector<T>, pitch = columns + pad, t1_pitch = ranks + pad, sum_pitch = ranks + 8;
  static constexpr int stage_elements = back_rows * (pitch + t1_pitch);  // dy, then T1
  static constexpr std::size_t team_bytes =
      sizeof(T) * stages * stage_elements + sizeof(float) * warps * back_rows * sum_pitch;  // and U1
  static constexpr std::size_t bytes = sizeof(T) * ranks * pitch + sizeof(float) * columns + teams * team_bytes;
};

template <class T>
struct RightOutput {
  const T *right = nullptr, *dy = nullptr;
  const float* bias = nullptr;
  float* d_right = nullptr;  // [groups, rank, columns]
  float* sums = nullptr;     // [groups, columns], optional
  std::int64_t ld = 0;
  int columns = 0, rank = 0, offset = 0, first_slice = 0;
};

// Grid: slices of all outputs, groups of tiles of tokens; further rows of blocks only add earlier sums.
template <class T>
struct RightGradient {
  std::int64_t tokens = 0;
  int width = 0, outputs = 0;
  unsigned groups = 1;
  Activation activation = Activation::none;
  const T* t1 = nullptr;
  float* u1 = nullptr;  // [slices, tokens, width]
  RightOutput<T> output[max_outputs];
};

// The tiles of a group, which a block's teams take in turn.
template <int teams>
struct TileRange {
  std::int64_t tokens;
  int first, count;  // none for a group behind the last one

  // The first groups have one tile more if the tiles do not divide evenly. One division of 32 bits: one of 64 bits
  // delays the first load by a tenth of a microsecond.
  COMERA_DEVICE TileRange(std::int64_t tokens, unsigned group, unsigned groups) : tokens(tokens) {
    const auto tiles = static_cast<unsigned>((tokens + back_rows - 1) / back_rows);
    const unsigned each = tiles / groups, more = tiles % groups, before = group < more ? group : more;
    first = static_cast<int>(each * group + before),
    count = group < groups ? static_cast<int>(each + (group < more ? 1 : 0)) : 0;
  }
  COMERA_DEVICE int passes() const { return (count + teams - 1) / teams; }
  // The first token of a pass's tile. Behind the last tile it is `tokens`, so that the team reads zeros and writes
  // nothing while the other one has a tile.
  COMERA_DEVICE std::int64_t token(int pass, int team) const {
    const int tile = teams * pass + team;
    return teams == 1 || tile < count ? std::int64_t{first + tile} * back_rows : tokens;
  }
};

// Adds the second team's sums to those of the first one, through shared memory that nothing else uses any more. each(f)
// calls f(number, which) for a thread's sums, of which there are `sums`.
template <class Tile, int sums, class Each>
__device__ void join_teams(const Each& each) {
  static_assert(Tile::teams <= 2);
  if constexpr (Tile::teams == 2) {
    static_assert(sizeof(float) * sums * Tile::threads <= Tile::bytes);
    float* const own = shared_memory<float>() + threadIdx.x;
    if (threadIdx.y == 1) each([&](float& sum, int which) { own[which * Tile::threads] = sum; });
    __syncthreads();
    if (threadIdx.y == 0) each([&](float& sum, int which) { sum += own[which * Tile::threads]; });
  }
}

// Blocks that have no tiles add the sums alone, if there are any.
__device__ inline void add_sums_beside(const GroupSums<>& sums, unsigned groups) {
  const unsigned first_row = gridDim.y > groups ? groups : 0;
  if (blockIdx.y >= first_row) add_sums<3>(sums, first_row);
}

template <class Tile, class T>
__device__ void fetch_right(const RightOutput<T>& o, int first, T* to) {
  constexpr int lanes = lanes_of_vector<T>, wide = Tile::columns / lanes;
  constexpr int all = Tile::teams * Tile::threads;
  for (int v = static_cast<int>(threadIdx.y) * Tile::threads + static_cast<int>(threadIdx.x); v < Tile::ranks * wide;
       v += all) {
    const int row = v / wide, column = first + v % wide * lanes;
    const bool valid = row < o.rank && column < o.columns;
    copy_async(to + row * Tile::pitch + v % wide * lanes,
               valid ? o.right + static_cast<std::int64_t>(row) * o.columns + column : o.dy, valid);
  }
}

template <class Tile, class T>
__device__ void fetch_gradient(const RightGradient<T>& a, const RightOutput<T>& o, int first, std::int64_t token,
                               T* dy) {
  constexpr int lanes = lanes_of_vector<T>;
  copy_rows<back_rows, Tile::columns / lanes, Tile::pitch, Tile::threads>(dy, o.dy + token * o.ld + first, o.ld,
                                                                          a.tokens - token, o.columns - first);
  copy_rows<back_rows, Tile::ranks / lanes, Tile::t1_pitch, Tile::threads>(
      dy + back_rows * Tile::pitch, a.t1 + token * a.width + o.offset, a.width, a.tokens - token, o.rank);
}

// The slice's biases. The load is waited for, so this must not be in front of other copies.
template <class Tile, class T>
__device__ void load_biases(const RightOutput<T>& o, int first, float* to) {
  for (int c = static_cast<int>(threadIdx.x); c < Tile::columns; c += Tile::threads)
    to[c] = o.bias && first + c < o.columns ? o.bias[first + c] : 0.0f;
}

// A lane's column pairs of a tile (tensor_tile.h), one pair for each block of 8 columns.
struct LanePairs {
  float v[4][2];
};

// A tile with the slice's biases, from shared memory, in every row.
__device__ inline WarpTile bias_tile(const float* bias) {
  WarpTile tile;
#pragma unroll
  for (int n = 0; n < 4; ++n) {
    float pair[2];
    load_floats<2>(bias + static_cast<int>(threadIdx.x) % 4 * 2 + 8 * n, pair);
#pragma unroll
    for (int m = 0; m < 2; ++m)
#pragma unroll
      for (int i = 0; i < 4; ++i) tile.c[m][n][i] = pair[i % 2];
  }
  return tile;
}

// Calls f(address of the pair in dy, m, n, half) for the lane's pairs of a tile. Works on a few pairs at a time, so
// that not all slopes occupy registers at once.
template <class Tile, class T, class F>
__device__ void for_lane_pairs(T* dy, const F& f) {
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
#pragma unroll
  for (int m = 0; m < 2; ++m)
#pragma unroll
    for (int n = 0; n < 4; ++n) {
#pragma unroll
      for (int half = 0; half < 2; ++half)
        f(dy + (16 * m + 8 * half + lane / 4) * Tile::pitch + 8 * n + lane % 4 * 2, m, n, half);
      __syncwarp();
    }
}

template <class Tile, class T>
__device__ void add_columns(const T* dy, LanePairs& sums) {
  for_lane_pairs<Tile>(dy, [&](const T* at, int, int n, int) {
    float value[2];
    load_floats<2>(at, value);
    sums.v[n][0] += value[0], sums.v[n][1] += value[1];
  });
}

// Turns dy of a warp's tile of columns into d_pre and adds it to the lane's column sums.
template <class Tile, Activation activation, class T>
__device__ void apply_slope(const WarpTile& pre, T* dy, LanePairs& sums) {
  for_lane_pairs<Tile>(dy, [&](T* at, int m, int n, int half) {
    float value[2];
    load_floats<2>(at, value);
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      value[j] *= activation_slope<T>(activation, pre.c[m][n][2 * half + j]);
      sums.v[n][j] += value[j];
    }
    store_floats<2>(value, at);
  });
}

// Adds the warps' parts of U1 of a tile of tokens in order and writes the sum to memory.
template <class Tile, class T>
__device__ void add_warps(const RightGradient<T>& a, const RightOutput<T>& o, int slice, std::int64_t token,
                          const float* sums) {
  constexpr int wide = Tile::ranks / 4;
  for (int v = static_cast<int>(threadIdx.x); v < back_rows * wide; v += Tile::threads) {
    const int row = v / wide, column = v % wide * 4;
    if (token + row >= a.tokens || column >= o.rank) continue;
    float total[4] = {}, part[4];
#pragma unroll
    for (int w = 0; w < Tile::warps; ++w) {
      load_floats<4>(sums + (w * back_rows + row) * Tile::sum_pitch + column, part);
#pragma unroll
      for (int j = 0; j < 4; ++j) total[j] += part[j];
    }
    store_floats<4>(total, a.u1 + (slice * a.tokens + token + row) * a.width + o.offset + column);
  }
}

template <class Tile>
__device__ void write_column_sums(const LanePairs& sums, int column, int columns, float* to) {
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
#pragma unroll
  for (int n = 0; n < 4; ++n)
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      float sum = sums.v[n][j];
      for (int bits = 4; bits < warp_size; bits *= 2) sum += __shfl_xor_sync(full_warp, sum, bits);
      const int at = column + 8 * n + lane * 2 + j;
      if (lane < 4 && at < columns) to[at] = sum;
    }
}

template <class T, int across, int strips, int teams>
__global__ void __launch_bounds__(teams* RightTile<T, across, strips>::threads, across > 1 || teams > 1 ? 1 : 2)
    tt_backward_right(const RightGradient<T> __grid_constant__ a, const GroupSums<> __grid_constant__ earlier) {
  begin_kernel();
  using Tile = RightTile<T, across, strips, teams>;
  int output = 0;
  while (output + 1 < a.outputs && static_cast<int>(blockIdx.x) >= a.output[output + 1].first_slice) ++output;
  const RightOutput<T>& o = a.output[output];
  const int slice = static_cast<int>(blockIdx.x) - o.first_slice, first = slice * Tile::columns;
  const int warp = static_cast<int>(threadIdx.x) / warp_size, own = warp * across * warp_tile,
            team = static_cast<int>(threadIdx.y);
  const TileRange<teams> tiles(a.tokens, blockIdx.y, a.groups);
  T* const right = shared_memory<T>();
  float* const bias = reinterpret_cast<float*>(right + Tile::ranks * Tile::pitch);
  auto* const places = reinterpret_cast<T*>(reinterpret_cast<char*>(bias + Tile::columns) + team * Tile::team_bytes);
  auto* const u1_parts = reinterpret_cast<float*>(places + Tile::stages * Tile::stage_elements);
  WarpTile d_right[across][strips];
  LanePairs sums[across] = {};
#pragma unroll
  for (int w = 0; w < across; ++w) {
#pragma unroll
    for (int s = 0; s < strips; ++s) d_right[w][s].clear();
  }
  if (tiles.count > 0) fetch_right<Tile>(o, first, right);  // complete when the first tile is
  const auto fetch = [&](int c, int place) {
    fetch_gradient<Tile>(a, o, first, tiles.token(c, team), places + place * Tile::stage_elements);
  };
  const auto use = [&](int c, int place) {
    T *const dy = places + place * Tile::stage_elements, *const t1 = dy + back_rows * Tile::pitch;
#pragma unroll
    for (int w = 0; w < across; ++w) {
      T* const own_dy = dy + own + w * warp_tile;
      with_constant(a.activation, [&](auto activation) {
        if constexpr (activation() == Activation::none) {
          if (o.sums) add_columns<Tile>(own_dy, sums[w]);
        } else {
          WarpTile pre = bias_tile(bias + own + w * warp_tile);
          multiply<false>(pre, t1, Tile::t1_pitch, right + own + w * warp_tile, Tile::pitch, Tile::ranks);
          apply_slope<Tile, activation()>(pre, own_dy, sums[w]);
        }
      });
    }
    WarpTile u1[strips];
#pragma unroll
    for (int s = 0; s < strips; ++s) {
      u1[s].clear();
#pragma unroll
      for (int w = 0; w < across; ++w) {
        const T* const d_pre = dy + own + w * warp_tile;
        multiply<true>(u1[s], d_pre, Tile::pitch, right + s * warp_tile * Tile::pitch + own + w * warp_tile,
                       Tile::pitch, warp_tile);
      }
    }
#pragma unroll
    for (int s = 0; s < strips; ++s)
      u1[s].for_pairs([&](int row, int column, float p, float q) {
        const float pair[2] = {p, q};
        store_floats<2>(pair, u1_parts + (warp * back_rows + row) * Tile::sum_pitch + s * warp_tile + column);
      });
    __syncthreads();
    // Here its waits overlap with those of the sums over the warps.
#pragma unroll
    for (int w = 0; w < across; ++w)
#pragma unroll
      for (int s = 0; s < strips; ++s)
        multiply_turned(d_right[w][s], t1 + s * warp_tile, Tile::t1_pitch, dy + own + w * warp_tile, Tile::pitch,
                        back_rows);
    add_warps<Tile>(a, o, slice, tiles.token(c, team), u1_parts);
  };
  for_chunks<Tile::stages>(tiles.passes(), fetch, use, [&] {
    if (team == 0 && a.activation != Activation::none) load_biases<Tile>(o, first, bias);
    add_sums_beside(earlier, a.groups);
  });
  if (tiles.count == 0) return;
  join_teams<Tile, across*(strips * 32 + 8)>([&](const auto& f) {
#pragma unroll
    for (int w = 0; w < across; ++w) {
#pragma unroll
      for (int s = 0; s < strips; ++s) d_right[w][s].for_each(32 * (w * strips + s), f);
#pragma unroll
      for (int n = 0; n < 4; ++n)
#pragma unroll
        for (int j = 0; j < 2; ++j) f(sums[w].v[n][j], 32 * across * strips + 8 * w + 2 * n + j);
    }
  });
  if (team > 0) return;
  float* const to = o.d_right + static_cast<std::int64_t>(blockIdx.y) * o.rank * o.columns;
#pragma unroll
  for (int w = 0; w < across; ++w) {
    const int column = first + own + w * warp_tile;
#pragma unroll
    for (int s = 0; s < strips; ++s)
      d_right[w][s].for_pairs([&](int r, int n, float p, float q) {
        if (s * warp_tile + r >= o.rank || column + n >= o.columns) return;
        const float pair[2] = {p, q};
        store_floats<2>(pair, to + static_cast<std::int64_t>(s * warp_tile + r) * o.columns + column + n);
      });
    if (o.sums)
      write_column_sums<Tile>(sums[w], column, o.columns, o.sums + static_cast<std::int64_t>(blockIdx.y) * o.columns);
  }
}

}  // namespace comera::kernels::cuda
