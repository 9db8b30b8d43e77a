// Chains of cores on the GPU, the code that TT and TTM share. A left or right factor is lead x core x core ...; its
// partial products P_i are matrices [lead s_1 .. s_i, r_i] whose last index is the next bond. So every step of every
// factor is one small product:
//   P_{i+1} = P_i G~_i,   dP_i = dP_{i+1} G~_i^T,   dG~_i = P_i^T dP_{i+1}.
// Independent steps of all factors share one launch. Partial products stay in the L2 cache. The cost is the number of
// launches and the latency of one tile; therefore tiles are 32 x 32 and long sums are split into slices.
#pragma once

#include "kernels/chain.h"
#include "kernels/cuda/common/batch.h"
#include "kernels/cuda/common/element.h"

namespace comera::kernels::cuda {

constexpr int chain_tile = 32;
constexpr unsigned chain_threads = 256;
constexpr int rows_of_core_tile = 512;  // rows of a core's gradient per block

COMERA_DEVICE float masked(float value, double threshold) {
  return static_cast<double>(value) > threshold ? value : 0.0f;
}

// A stored matrix with contiguous rows of `columns` elements. It is plain, or a sum of slices, or a left or right
// factor whose elements are at place(index). Columns are multiplied by the masked diagonal of length `period`.
template <class Place>
struct Operand {
  const float* data = nullptr;
  const float* diagonal = nullptr;
  std::int64_t stride = 0;
  int columns = 0, period = 1, slices = 1;
  bool placed = false;

  COMERA_DEVICE float value(int row, int column, const Place& place, double threshold) const {
    const int at = row * columns + column;
    float sum = data[placed ? place(at) : at];
    for (int s = 1; s < slices; ++s) sum += data[s * stride + at];
    return diagonal ? sum * masked(diagonal[column % period], threshold) : sum;
  }
};

// c = a b, or one slice of it over the inner index. If c is null, the result goes to `factor`.
template <class Place>
struct SmallProduct {
  Operand<Place> a, b;  // [m, k] or, transposed, [k, m]; [k, n] or [n, k]
  bool transpose_a = false, transpose_b = false;
  int m = 0, n = 0, k = 0, inner = 0, slices = 1;  // inner: length of one slice
  float* c = nullptr;                              // [slices, m, n]
  void* factor = nullptr;
  Place place;
  double threshold = 0;
  unsigned blocks = 0, first_block = 0;
};

constexpr int tiles_of_chain(int size) { return (size + chain_tile - 1) / chain_tile; }

// Loads a tile at (row, column) in the stored orientation, with zeros outside. Neighbouring threads read neighbouring
// elements.
template <class Place>
__device__ void load_tile(const Operand<Place>& from, int row, int column, int rows, int columns, const Place& place,
                          double threshold, float (&to)[chain_tile][chain_tile + 1]) {
  const int x = threadIdx.x % chain_tile;
  for (int y = threadIdx.x / chain_tile; y < chain_tile; y += chain_threads / chain_tile)
    to[y][x] = row + y < rows && column + x < columns ? from.value(row + y, column + x, place, threshold) : 0.0f;
}

// A thread computes rows 2y, 2y + 1 and columns x, x + 16 of the tile.
template <class T, class Place, int capacity>
__global__ void small_products(const Batch<SmallProduct<Place>, capacity> __grid_constant__ batch) {
  __shared__ float as[chain_tile][chain_tile + 1], bs[chain_tile][chain_tile + 1];
  const SmallProduct<Place>& g = batch.item[item_of_block(batch)];
  const int tile = static_cast<int>(blockIdx.x - g.first_block), across = tiles_of_chain(g.n),
            tiles = across * tiles_of_chain(g.m);
  const int slice = tile / tiles, m0 = tile % tiles / across * chain_tile, n0 = tile % tiles % across * chain_tile;
  const int x = threadIdx.x % 16, y = threadIdx.x / 16 * 2, last = min(g.k, (slice + 1) * g.inner);
  float sum[2][2] = {};
  for (int k0 = slice * g.inner; k0 < last; k0 += chain_tile) {
    g.transpose_a ? load_tile(g.a, k0, m0, last, g.m, g.place, g.threshold, as)
                  : load_tile(g.a, m0, k0, g.m, last, g.place, g.threshold, as);
    g.transpose_b ? load_tile(g.b, n0, k0, g.n, last, g.place, g.threshold, bs)
                  : load_tile(g.b, k0, n0, last, g.n, g.place, g.threshold, bs);
    __syncthreads();
    for (int l = 0; l < chain_tile; ++l) {
      float a[2], b[2];
      for (int i = 0; i < 2; ++i) a[i] = g.transpose_a ? as[l][y + i] : as[y + i][l];
      for (int j = 0; j < 2; ++j) b[j] = g.transpose_b ? bs[x + 16 * j][l] : bs[l][x + 16 * j];
      for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) sum[i][j] += a[i] * b[j];
    }
    __syncthreads();
  }
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j) {
      const int row = m0 + y + i, column = n0 + x + 16 * j;
      if (row >= g.m || column >= g.n) continue;
      const int at = row * g.n + column;
      if (g.c)
        g.c[static_cast<std::int64_t>(slice) * g.m * g.n + at] = sum[i][j];
      else
        static_cast<T*>(g.factor)[g.place(at)] = to_element<T>(sum[i][j]);
    }
}

// A left or right factor that consists of one core.
template <class Place>
struct CoreCopy {
  Operand<Place> core;
  int count = 0;
  void* factor = nullptr;
  Place place;
  double threshold = 0;
  unsigned blocks = 0, first_block = 0;
};

template <class T, class Place, int capacity>
__global__ void copy_cores(const Batch<CoreCopy<Place>, capacity> __grid_constant__ batch) {
  const CoreCopy<Place>& c = batch.item[item_of_block(batch)];
  const unsigned at = (blockIdx.x - c.first_block) * chain_threads + threadIdx.x;
  if (at >= static_cast<unsigned>(c.count)) return;
  const int row = static_cast<int>(at) / c.core.columns, column = static_cast<int>(at) % c.core.columns;
  static_cast<T*>(c.factor)[c.place(static_cast<int>(at))] =
      to_element<T>(c.core.value(row, column, c.place, c.threshold));
}

// Computes the gradients of a core and of its diagonal from the gradient of the masked core [rows, columns].
template <class Place>
struct CoreGradient {
  Operand<Place> gradient;
  const float *core = nullptr, *diagonal = nullptr;
  float *d_core = nullptr, *d_diagonal = nullptr;
  float* sums = nullptr;  // [tiles, columns], if the rows fill more than one tile
  int rows = 0, columns = 0;
  Place place;
  double threshold = 0;
  unsigned blocks = 0, first_block = 0;
};

constexpr int core_tiles(int rows) { return (rows + rows_of_core_tile - 1) / rows_of_core_tile; }

// Blocks of 32 x 8 threads: 32 columns of a core; thread row y sums every eighth row.
template <class Place, int capacity>
__global__ void unmask_gradients(const Batch<CoreGradient<Place>, capacity> __grid_constant__ batch) {
  constexpr int high = chain_threads / warp_size;
  __shared__ float parts[high][warp_size];
  const CoreGradient<Place>& g = batch.item[item_of_block(batch)];
  const unsigned across = (static_cast<unsigned>(g.columns) + warp_size - 1) / warp_size,
                 block = blockIdx.x - g.first_block;
  const int lane = threadIdx.x % warp_size, y = threadIdx.x / warp_size,
            column = static_cast<int>(block % across) * warp_size + lane;
  const int tile = static_cast<int>(block / across), last = min(g.rows, (tile + 1) * rows_of_core_tile);
  const float factor = column >= g.columns ? 0.0f : g.diagonal ? masked(g.diagonal[column], g.threshold) : 1.0f;
  float sum = 0;
  for (int row = tile * rows_of_core_tile + y; factor != 0 && row < last; row += high) {
    const int at = row * g.columns + column;
    const float d = g.gradient.value(row, column, g.place, g.threshold);
    if (g.d_diagonal) sum += d * g.core[at];
    g.d_core[at] += d * factor;
  }
  if (!g.d_diagonal) return;
  parts[y][lane] = sum;
  __syncthreads();
  if (y != 0 || column >= g.columns) return;
  float total = 0;
  for (int i = 0; i < high; ++i) total += parts[i][lane];
  if (g.sums)
    g.sums[tile * g.columns + column] = total;
  else if (factor != 0)
    g.d_diagonal[column] += total;
}

// Adds up the diagonal gradients of cores with several tiles.
template <class Place, int capacity>
__global__ void join_diagonals(const Batch<CoreGradient<Place>, capacity> __grid_constant__ batch) {
  const CoreGradient<Place>& g = batch.item[item_of_block(batch)];
  const int column = static_cast<int>((blockIdx.x - g.first_block) * chain_threads + threadIdx.x);
  if (column >= g.columns || masked(g.diagonal[column], g.threshold) == 0) return;
  float total = 0;
  for (int tile = 0; tile < core_tiles(g.rows); ++tile) total += g.sums[tile * g.columns + column];
  g.d_diagonal[column] += total;
}

}  // namespace comera::kernels::cuda
