// Chains of cores on the GPU, the code that TT and TTM share. A left or right factor is lead x core x core ...; its
// partial products P_i are matrices [lead s_1 .. s_i, r_i] whose last index is the next bond. So every step of every
// factor is one small product:
//   P_{i+1} = P_i G~_i,   dP_i = dP_{i+1} G~_i^T,   dG~_i = P_i^T dP_{i+1}.
// Independent steps of all factors share one launch. Partial products stay in the L2 cache. Sums are short
// (a rank), so the cost is that of loading tiles and of finding places of results: indices are divided by
// multiplication (divisor.h), tiles are as large as a block's registers allow, and long sums are split into slices.
#pragma once

#include "kernels/chain.h"
#include "kernels/cuda/chains/divisor.h"
#include "kernels/cuda/common/batch.h"
#include "kernels/cuda/common/vector.h"

namespace comera::kernels::cuda {

constexpr int chain_inner = 32;  // inner indices of a tile at a time
constexpr unsigned chain_threads = 256, core_threads = 512;

COMERA_DEVICE float masked(float value, double threshold) {
  return static_cast<double>(value) > threshold ? value : 0.0f;
}

// A stored matrix with contiguous rows of `columns` elements. It is plain, or a sum of slices, or a left or right
// factor whose elements are at place(index). Columns are multiplied by the masked diagonal of length `period`.
//
// A Place splits an index into places that can be added: index(split(row * columns) + split(column)) is the place of an
// element, so that a tile's rows and columns are each split once. find(at, index) is index(split(at)) for several
// indices, whose divisions and reads overlap.
template <class Place>
struct Operand {
  const float* data = nullptr;
  const float* diagonal = nullptr;
  int columns = 0, stride = 0;  // stride: elements of a slice
  Divisor period;
  std::int16_t slices = 1;
  bool placed = false;

  // The elements at some places, without the diagonal. All reads of a slice are issued before the first is used.
  template <int count>
  COMERA_DEVICE void read(const int (&at)[count], const Place& place, float (&value)[count]) const {
    if (placed) {
      constexpr int some = count < Place::together ? count : Place::together;
#pragma unroll
      for (int first = 0; first < count; first += some) {
        int part[some];
        std::int64_t index[some];
#pragma unroll
        for (int j = 0; j < some; ++j) part[j] = at[first + j];
        place.find(part, index);
#pragma unroll
        for (int j = 0; j < some; ++j) value[first + j] = data[index[j]];
      }
      return;
    }
#pragma unroll
    for (int j = 0; j < count; ++j) value[j] = data[at[j]];
    constexpr int together = count < 16 ? 16 / count : 1;  // slices
    for (int s = 1; s < slices; s += together) {
      float more[together][count];
#pragma unroll
      for (int i = 0; i < together; ++i) {
        const float* const slice = data + static_cast<std::int64_t>(min(s + i, slices - 1)) * stride;
#pragma unroll
        for (int j = 0; j < count; ++j) more[i][j] = slice[at[j]];
      }
#pragma unroll
      for (int i = 0; i < together; ++i)
#pragma unroll
        for (int j = 0; j < count; ++j) value[j] += s + i < slices ? more[i][j] : 0.0f;
    }
  }
  COMERA_DEVICE float factor(int column, double threshold) const {
    return diagonal ? masked(diagonal[period.remainder(column)], threshold) : 1.0f;
  }
};

// Tiles of a product: 4096 elements, fewer columns or rows for matrices with few. A deep tile has 1024 elements, and
// four groups of threads that share the inner indices.
enum class ChainTile : std::uint8_t { square, tall, flat, deep };
constexpr int groups_of(ChainTile tile) { return tile == ChainTile::deep ? 4 : 1; }
constexpr int rows_of(ChainTile tile) { return tile == ChainTile::tall ? 128 : tile == ChainTile::square ? 64 : 32; }
constexpr int columns_of(ChainTile tile) { return 4096 / groups_of(tile) / rows_of(tile); }
constexpr ChainTile tile_for(int rows, int columns, int inner) {
  if (rows <= 32 && columns <= 32 && inner > chain_inner) return ChainTile::deep;
  if ((rows <= 32 || columns <= 32) && inner >= groups_of(ChainTile::deep) * chain_inner) return ChainTile::deep;
  return columns <= 32 ? ChainTile::tall : rows <= 32 ? ChainTile::flat : ChainTile::square;
}

// c = a b, or one slice of it over the inner index. If c is null, the result goes to `factor`.
template <class Place>
struct SmallProduct {
  Operand<Place> a, b;  // [m, k] or, transposed, [k, m]; [k, n] or [n, k]
  bool transpose_a = false, transpose_b = false;
  ChainTile tile = ChainTile::square;
  int m = 0, n = 0, k = 0, inner = 0;  // inner: length of one slice
  Divisor tiles, across;               // tiles of c, and of a row of tiles
  float* c = nullptr;                  // [slices, m, n]
  void* factor = nullptr;
  Place place;
  double threshold = 0;
  unsigned blocks = 0, first_block = 0;
};

// A thread's elements of `groups` times 32 inner indices from k0 on, of `width` rows or columns of a product. They are
// read into registers, so that the reads of the next inner indices are under way while this one's products are
// computed, and then stored as to[inner][width + 4] per group, with zeros outside. by_inner: the stored matrix is
// [inner, across], else [across, inner]. A thread stays in one stored column per group. A warp reads whole sectors of
// 32 bytes and writes without bank conflicts.
template <int width, int groups>
class TilePart {
 public:
  // is_plain: the caller knows that the matrix is.
  template <bool is_plain, class Place>
  __device__ void read(const Operand<Place>& from, bool by_inner, int first, int end, int k0, int last,
                       const Place& place, double threshold) {
    const int t = static_cast<int>(threadIdx.x), lane = t % warp_size, warp = t / warp_size,
              step = by_inner ? deep : wide;
    int at[groups * count];
#pragma unroll
    for (int g = 0; g < groups; ++g) {
      const int inner = k0 + g * chain_inner + (by_inner ? t / width : lane % 8 + warp % 4 * 8),
                across = first + (by_inner ? t % width : lane / 8 + warp / 4 * 4);
      const int column = by_inner ? across : inner, row = by_inner ? inner : across;
      const bool has_column = column < (by_inner ? end : last);
      const int rows = has_column ? (by_inner ? last : end) - row : 0;  // the j-th element is inside if j * step < rows
      inside_[g] = rows <= 0 ? 0 : (rows + step - 1) / step;
      factor_[g] = has_column ? from.factor(column, threshold) : 0.0f;
#pragma unroll
      for (int j = 0; j < count; ++j) at[g * count + j] = j < inside_[g] ? (row + j * step) * from.columns + column : 0;
    }
    if (!is_plain) return from.read(at, place, value_);
#pragma unroll
    for (int i = 0; i < groups * count; ++i) value_[i] = from.data[at[i]];
  }
  // group_size: elements of shared memory between groups.
  __device__ void store(bool by_inner, float* to, int group_size) const {
    const int t = static_cast<int>(threadIdx.x), lane = t % warp_size, warp = t / warp_size;
    to += by_inner ? t / width * pitch + t % width : (lane % 8 + warp % 4 * 8) * pitch + lane / 8 + warp / 4 * 4;
    const int step = by_inner ? deep * pitch : wide;
#pragma unroll
    for (int g = 0; g < groups; ++g)
#pragma unroll
      for (int j = 0; j < count; ++j)
        to[g * group_size + j * step] = j < inside_[g] ? factor_[g] * value_[g * count + j] : 0.0f;
  }

 private:
  static constexpr int threads = static_cast<int>(chain_threads), count = width * chain_inner / threads,
                       pitch = width + 4, deep = threads / width, wide = threads / warp_size;

  float value_[groups * count], factor_[groups];
  int inside_[groups];  // elements
};

// Writes rows m .. m + 3 and columns n, n + step, ... of the product.
template <int step, class T, class Place>
__device__ void write_tile(const SmallProduct<Place>& g, int slice, int m, int n, const float (&sum)[4][4]) {
  if (g.c) {
    float* const to = g.c + static_cast<std::int64_t>(slice) * g.m * g.n + m * g.n + n;
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j)
        if (m + i < g.m && n + j * step < g.n) to[i * g.n + j * step] = sum[i][j];
    return;
  }
  const Place& place = g.place;
  T* const factor = static_cast<T*>(g.factor);
  typename Place::Spot column[4];
#pragma unroll
  for (int j = 0; j < 4; ++j) column[j] = place.split(n + j * step);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const auto row = place.split((m + i) * g.n);
#pragma unroll
    for (int j = 0; j < 4; ++j)
      if (m + i < g.m && n + j * step < g.n) factor[place.index(row + column[j])] = to_element<T>(sum[i][j]);
  }
}

// The sum of the groups' tiles, in order, in the first group.
__device__ inline void add_groups_of_threads(float (&sum)[4][4], int group, int groups, int threads, float* shared) {
  const int t = static_cast<int>(threadIdx.x) % threads;
  for (int from = 1; from < groups; ++from) {
#pragma unroll
    for (int i = 0; i < 16; ++i)
      if (group == from) shared[i * threads + t] = sum[i / 4][i % 4];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 16; ++i)
      if (group == 0) sum[i / 4][i % 4] += shared[i * threads + t];
    __syncthreads();
  }
}

// A thread computes rows 4y .. 4y + 3 and every (columns / 4)-th column from x on, for the inner indices of its group.
template <ChainTile shape, bool is_plain, class T, class Place>
__device__ void multiply_tile(const SmallProduct<Place>& g, int slice, int m0, int n0, float* shared) {
  constexpr int rows = rows_of(shape), columns = columns_of(shape), wide = columns / 4, groups = groups_of(shape),
                threads = static_cast<int>(chain_threads) / groups, size = chain_inner * (rows + columns + 8);
  const int group = static_cast<int>(threadIdx.x) / threads, t = static_cast<int>(threadIdx.x) % threads, x = t % wide,
            y = t / wide * 4, last = min(g.k, (slice + 1) * g.inner);
  float *const as = shared + group * size, *const bs = as + chain_inner * (rows + 4);
  TilePart<rows, groups> a_part;
  TilePart<columns, groups> b_part;
  const auto read = [&](int k0) {
    a_part.template read<is_plain>(g.a, g.transpose_a, m0, g.m, k0, last, g.place, g.threshold);
    b_part.template read<is_plain>(g.b, !g.transpose_b, n0, g.n, k0, last, g.place, g.threshold);
  };
  constexpr bool reads_ahead = !is_plain;  // the sums of plain products are a rank long
  if (reads_ahead) read(slice * g.inner);
  float sum[4][4] = {};
  for (int k0 = slice * g.inner; k0 < last; k0 += groups * chain_inner) {
    if (!reads_ahead) read(k0);
    a_part.store(g.transpose_a, shared, size);
    b_part.store(!g.transpose_b, shared + chain_inner * (rows + 4), size);
    __syncthreads();
    if (reads_ahead && k0 + groups * chain_inner < last) read(k0 + groups * chain_inner);
    const int inner = min(chain_inner, last - k0 - group * chain_inner);
    for (int l0 = 0; l0 < inner; l0 += 4)  // up to three zeros behind the end
#pragma unroll
      for (int l = l0; l < l0 + 4; ++l) {
        float a[4], b[4];
        load_floats<4>(as + l * (rows + 4) + y, a);
#pragma unroll
        for (int j = 0; j < 4; ++j) b[j] = bs[l * (columns + 4) + x + j * wide];
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
          for (int j = 0; j < 4; ++j) sum[i][j] += a[i] * b[j];
      }
    __syncthreads();
  }
  if (groups > 1) add_groups_of_threads(sum, group, groups, threads, shared);
  if (group == 0) write_tile<wide, T>(g, slice, m0 + y, n0 + x, sum);
}

// is_plain: the operands of all products are.
template <class T, bool is_plain, class Place, int capacity>
__global__ void __launch_bounds__(chain_threads, is_plain ? 3 : 2)
    small_products(const Batch<SmallProduct<Place>, capacity> __grid_constant__ batch) {
  begin_kernel();
  alignas(16) __shared__ float shared[4 * chain_inner * (32 + 4 + 32 + 4)];  // of the deep tile; others take less
  const SmallProduct<Place>& g = batch.item[item_of_block(batch)];
  int slice = static_cast<int>(blockIdx.x - g.first_block), tile = g.tiles.split(slice);
  const int column = g.across.split(tile);
  const auto multiply = [&](auto shape) {
    multiply_tile<shape(), is_plain, T>(g, slice, tile * rows_of(shape()), column * columns_of(shape()), shared);
  };
  switch (g.tile) {
    case ChainTile::square: return multiply(std::integral_constant<ChainTile, ChainTile::square>());
    case ChainTile::tall: return multiply(std::integral_constant<ChainTile, ChainTile::tall>());
    case ChainTile::flat: return multiply(std::integral_constant<ChainTile, ChainTile::flat>());
    case ChainTile::deep: return multiply(std::integral_constant<ChainTile, ChainTile::deep>());
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
  begin_kernel();
  const CoreCopy<Place>& c = batch.item[item_of_block(batch)];
  const unsigned at = (blockIdx.x - c.first_block) * chain_threads + threadIdx.x;
  if (at >= static_cast<unsigned>(c.count)) return;
  const int column = static_cast<int>(at) % c.core.columns;
  static_cast<T*>(c.factor)[c.place.index(c.place.split(static_cast<int>(at)))] =
      to_element<T>(c.core.data[at] * c.core.factor(column, c.threshold));
}

// Computes the gradients of a core and of its diagonal from the gradient of the masked core [rows, columns].
template <class Place>
struct CoreGradient {
  Operand<Place> gradient;
  const float *core = nullptr, *diagonal = nullptr;
  float *d_core = nullptr, *d_diagonal = nullptr;
  float* sums = nullptr;                     // [tiles, columns], if the rows fill more than one tile
  int rows = 0, columns = 0, tile_rows = 1;  // tile_rows: of a block
  Place place;
  double threshold = 0;
  unsigned blocks = 0, first_block = 0;
};

constexpr int core_tiles(int rows, int tile) { return (rows + tile - 1) / tile; }

// Blocks of 32 x 16 threads: 32 columns of a core; thread row y sums every 16th row, and reads some before it writes.
// The last core of a matrix has one column and no diagonal, so all threads share its rows.
template <class Place, int capacity>
__global__ void __launch_bounds__(core_threads)
    unmask_gradients(const Batch<CoreGradient<Place>, capacity> __grid_constant__ batch) {
  begin_kernel();
  constexpr int rows_at_once = 8;
  __shared__ float parts[core_threads / warp_size][warp_size];
  const CoreGradient<Place>& g = batch.item[item_of_block(batch)];
  const unsigned across = (static_cast<unsigned>(g.columns) + warp_size - 1) / warp_size,
                 block = blockIdx.x - g.first_block;
  const int wide = g.columns == 1 && !g.d_diagonal ? 1 : warp_size, high = static_cast<int>(core_threads) / wide,
            lane = static_cast<int>(threadIdx.x) % wide, y = static_cast<int>(threadIdx.x) / wide,
            column = static_cast<int>(block % across) * warp_size + lane;
  const int tile = static_cast<int>(block / across), last = min(g.rows, (tile + 1) * g.tile_rows);
  const float factor = column >= g.columns ? 0.0f : g.diagonal ? masked(g.diagonal[column], g.threshold) : 1.0f;
  float sum = 0;
  for (int row = tile * g.tile_rows + y; factor != 0 && row < last; row += rows_at_once * high) {
    int at[rows_at_once];
    float d[rows_at_once], core[rows_at_once], own[rows_at_once];
#pragma unroll
    for (int j = 0; j < rows_at_once; ++j) at[j] = (row + j * high < last ? row + j * high : row) * g.columns + column;
#pragma unroll
    for (int j = 0; j < rows_at_once; ++j) own[j] = g.d_core[at[j]], core[j] = g.core[at[j]];
    g.gradient.read(at, g.place, d);
#pragma unroll
    for (int j = 0; j < rows_at_once; ++j) {
      if (row + j * high >= last) break;
      sum += d[j] * core[j];
      g.d_core[at[j]] = own[j] + d[j] * factor;
    }
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
  begin_kernel();
  const CoreGradient<Place>& g = batch.item[item_of_block(batch)];
  const int column = static_cast<int>((blockIdx.x - g.first_block) * chain_threads + threadIdx.x);
  if (column >= g.columns || masked(g.diagonal[column], g.threshold) == 0) return;
  float total = 0;
  for (int tile = 0; tile < core_tiles(g.rows, g.tile_rows); ++tile) total += g.sums[tile * g.columns + column];
  g.d_diagonal[column] += total;
}

}  // namespace comera::kernels::cuda
