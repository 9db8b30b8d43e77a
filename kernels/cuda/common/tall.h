// Passes around the tall products of a linear layer: bias and activation after them; activation slope and column sums
// before the products of the backward. Each is one pass over [K, N], bound by memory traffic. The outputs of a layer
// (q, k, v) share one launch.
#pragma once

#include <algorithm>

#include "kernels/cuda/common/activation.h"
#include "kernels/cuda/common/eights.h"
#include "kernels/cuda/common/workspace.h"
#include "kernels/tt_linear.h"

namespace comera::kernels::cuda {

constexpr unsigned tall_rows = 8;                 // rows of a block at a time, 32 threads per row
constexpr std::int64_t most_blocks_down = 65535;  // in a grid
constexpr int rows_in_flight = 4;                 // that a thread loads before it uses the first
constexpr std::int64_t rows_of_column_tile = 64;  // rows that one block sums, at least
constexpr std::int64_t most_column_tiles = 256;   // with more rows, the tiles become larger

constexpr std::int64_t rows_per_tile(std::int64_t rows) {
  const std::int64_t even = blocks_for(rows, most_column_tiles * tall_rows) * tall_rows;
  return even > rows_of_column_tile ? even : rows_of_column_tile;
}
constexpr std::int64_t column_tiles(std::int64_t rows) { return blocks_for(rows, rows_per_tile(rows)); }

// On entry y holds x W. It receives act(x W + bias); pre receives the argument of act.
template <class T>
struct FinishItem {
  const float* bias = nullptr;
  T *y = nullptr, *pre = nullptr;
  std::int64_t columns = 0, ld = 0;
};

// d_pre = dy * act'(pre + pre_bias), if `pre` and `d_pre` are set; and column sums over each tile of rows, if `sums` is
// set.
template <class T>
struct SlopeItem {
  const T *dy = nullptr, *pre = nullptr;
  const float* pre_bias = nullptr;
  T* d_pre = nullptr;
  float* sums = nullptr;    // [tiles, columns]
  float* d_bias = nullptr;  // receives the sum over all tiles
  std::int64_t columns = 0, ld_dy = 0, ld_pre = 0, ld_d_pre = 0;
};

template <class Item>
struct TallItems {
  Item item[max_outputs];
  int count = 0;
  std::int64_t widest() const {
    std::int64_t columns = 0;
    for (int i = 0; i < count; ++i) columns = item[i].columns > columns ? item[i].columns : columns;
    return columns;
  }
};

// Grid: tiles of columns, tiles of rows, outputs.
inline Launch tall_launch(std::int64_t widest, std::int64_t rows, int lanes, int items) {
  return {{static_cast<unsigned>(blocks_for(widest, warp_size * lanes)), static_cast<unsigned>(column_tiles(rows)),
           static_cast<unsigned>(items)},
          {warp_size, tall_rows}};
}

// A thread has as many rows as it loads at once, or fewer, if otherwise the blocks are too few for all processors.
inline Launch finish_launch(std::int64_t widest, std::int64_t rows, int lanes, int items) {
  const std::int64_t across = blocks_for(widest, warp_size * lanes),
                     down = std::clamp(blocks_for(2 * processors, across * items),
                                       blocks_for(rows, rows_in_flight * tall_rows), blocks_for(rows, tall_rows));
  return {{static_cast<unsigned>(across), static_cast<unsigned>(std::min(down, most_blocks_down)),
           static_cast<unsigned>(items)},
          {warp_size, tall_rows}};
}

// The bias of a thread's columns; zero if it is null.
template <int lanes>
__device__ void load_bias(const float* bias, std::int64_t column, float (&to)[lanes]) {
  if (!bias) return;
  constexpr int step = lanes < 4 ? 1 : 4;
#pragma unroll
  for (int j = 0; j < lanes; j += step) load_floats<step>(bias + column + j, to + j);
}

// Loads a thread's elements of those of a few rows, `step` elements apart, that exist.
template <class T, int lanes, int count>
__device__ void load_rows(const T* from, std::int64_t rows, std::int64_t stride, std::int64_t step,
                          Stored<T, lanes> (&to)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i)
    if (i * stride < rows) to[i].load(from + i * step);
}

template <class T, int lanes>
__global__ void __launch_bounds__(warp_size* tall_rows, 4)
    finish_rows(const TallItems<FinishItem<T>> __grid_constant__ items, std::int64_t rows, Activation activation) {
  begin_kernel();
  const FinishItem<T>& o = items.item[blockIdx.z];
  const std::int64_t column = (static_cast<std::int64_t>(blockIdx.x) * warp_size + threadIdx.x) * lanes,
                     stride = static_cast<std::int64_t>(gridDim.y) * tall_rows;
  if (column >= o.columns) return;
  float bias[lanes] = {};
  load_bias(o.bias, column, bias);
  with_constant(activation, [&](auto fixed) {
    const std::int64_t first = blockIdx.y * tall_rows + threadIdx.y, step = stride * o.ld;
    // With pointers that the loop advances, nvcc 13.0 stores 16 bytes at once; with indices it splits them.
    T* y = o.y + first * o.ld + column;
    T* pre = o.pre ? o.pre + first * o.ld + column : nullptr;
    for (std::int64_t row = first; row < rows; row += rows_in_flight * stride) {
      Stored<T, lanes> stored[rows_in_flight];
      load_rows(y, rows - row, stride, step, stored);
#pragma unroll
      for (int i = 0; i < rows_in_flight; ++i) {
        if (row + i * stride >= rows) break;
        float value[lanes];
#pragma unroll
        for (int j = 0; j < lanes; ++j) value[j] = stored[i][j] + bias[j];
        if (pre) store_floats<lanes>(value, pre + i * step);
#pragma unroll
        for (int j = 0; j < lanes; ++j) value[j] = activate<T>(decltype(fixed)::value, value[j]);
        store_floats<lanes>(value, y + i * step);
      }
      y += rows_in_flight * step;
      if (pre) pre += rows_in_flight * step;
    }
  });
}

// A thread's part of a tile: applies the slope and sums the columns.
template <Activation activation, class T, int lanes>
__device__ void slope_tile(const SlopeItem<T>& o, std::int64_t column, std::int64_t first, std::int64_t last,
                           float (&sum)[lanes]) {
  float bias[lanes] = {};
  load_bias(o.pre_bias, column, bias);
  constexpr int ahead = activation == Activation::none ? rows_in_flight : 1;  // slopes are long code
  const std::int64_t dy_step = tall_rows * o.ld_dy, pre_step = tall_rows * o.ld_pre, d_step = tall_rows * o.ld_d_pre;
  const T *dy = o.dy + first * o.ld_dy + column, *pre = o.pre ? o.pre + first * o.ld_pre + column : nullptr;
  T* d_pre = o.d_pre ? o.d_pre + first * o.ld_d_pre + column : nullptr;
  for (std::int64_t row = first; row < last; row += ahead * tall_rows) {
    Stored<T, lanes> stored_dy[ahead], stored_pre[ahead];
    load_rows(dy, last - row, tall_rows, dy_step, stored_dy);
    if (pre) load_rows(pre, last - row, tall_rows, pre_step, stored_pre);
#pragma unroll
    for (int i = 0; i < ahead; ++i) {
      if (row + i * tall_rows >= last) break;
      float value[lanes];
#pragma unroll
      for (int j = 0; j < lanes; ++j) {
        value[j] = stored_dy[i][j];
        if (pre) value[j] *= activation_slope<float>(activation, stored_pre[i][j] + bias[j]);
        sum[j] += value[j];
      }
      if (d_pre) store_floats<lanes>(value, d_pre + i * d_step);
    }
    dy += ahead * dy_step;
    if (pre) pre += ahead * pre_step;
    if (d_pre) d_pre += ahead * d_step;
  }
}

// One tile of rows: applies the slope, sums the columns in each of the eight thread rows, then adds these in order.
template <class T, int lanes>
__global__ void __launch_bounds__(warp_size* tall_rows)
    slope_rows(const TallItems<SlopeItem<T>> __grid_constant__ items, std::int64_t rows, Activation activation) {
  begin_kernel();
  __shared__ float parts[tall_rows][warp_size * lanes];
  const SlopeItem<T>& o = items.item[blockIdx.z];
  const std::int64_t column = (static_cast<std::int64_t>(blockIdx.x) * warp_size + threadIdx.x) * lanes;
  float sum[lanes] = {};
  const std::int64_t first = blockIdx.y * rows_per_tile(rows), last = min(rows, first + rows_per_tile(rows));
  with_constant(o.pre ? activation : Activation::none, [&](auto fixed) {
    if (column < o.columns) slope_tile<decltype(fixed)::value>(o, column, first + threadIdx.y, last, sum);
  });
  if (!o.sums) return;
#pragma unroll
  for (int j = 0; j < lanes; ++j) parts[threadIdx.y][threadIdx.x * lanes + j] = sum[j];
  __syncthreads();
  for (unsigned j = threadIdx.y * warp_size + threadIdx.x; j < warp_size * lanes; j += tall_rows * warp_size) {
    const std::int64_t to = static_cast<std::int64_t>(blockIdx.x) * warp_size * lanes + j;
    if (to >= o.columns) continue;
    float total = 0;
    for (unsigned y = 0; y < tall_rows; ++y) total += parts[y][j];
    o.sums[blockIdx.y * o.columns + to] = total;
  }
}

// d_bias += the sums of all tiles. Each thread row adds every eighth tile; then these sums are added in order.
template <class T>
__global__ void join_tiles(const TallItems<SlopeItem<T>> __grid_constant__ items, std::int64_t tiles) {
  begin_kernel();
  __shared__ float parts[tall_rows][warp_size];
  const SlopeItem<T>& o = items.item[blockIdx.y];
  if (!o.sums) return;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * warp_size + threadIdx.x;
  float sum = 0;
  for (std::int64_t tile = threadIdx.y; column < o.columns && tile < tiles; tile += tall_rows)
    sum += o.sums[tile * o.columns + column];
  parts[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= o.columns) return;
  float total = 0;
  for (unsigned y = 0; y < tall_rows; ++y) total += parts[y][threadIdx.x];
  o.d_bias[column] += total;
}

template <class T>
Status finish(const Context& context, const TallItems<FinishItem<T>>& items, std::int64_t rows, Activation activation) {
  bool needed = false, aligned = true;
  for (int i = 0; i < items.count; ++i) {
    const FinishItem<T>& o = items.item[i];
    needed |= o.bias || activation != Activation::none || (o.pre && o.pre != o.y);
    aligned &=
        rows_are_aligned<T>(o.y, o.ld) && rows_are_aligned<T>(o.pre, o.ld) && o.columns % lanes_of_vector<T> == 0;
  }
  if (!needed) return Status::ok;
  constexpr int wide = lanes_of_vector<T>;
  if (aligned)
    return launch(context, finish_launch(items.widest(), rows, wide, items.count), finish_rows<T, wide>, items, rows,
                  activation);
  return launch(context, finish_launch(items.widest(), rows, 1, items.count), finish_rows<T, 1>, items, rows,
                activation);
}

template <class T>
Status join_sums(const Context& context, const TallItems<SlopeItem<T>>& items, std::int64_t tiles) {
  const Launch join{{static_cast<unsigned>(blocks_for(items.widest(), warp_size)), static_cast<unsigned>(items.count)},
                    {warp_size, tall_rows}};
  return launch(context, join, join_tiles<T>, items, tiles);
}

template <class T>
Status slope(const Context& context, const TallItems<SlopeItem<T>>& items, std::int64_t rows, Activation activation) {
  bool aligned = true, sums = false, needed = false;
  for (int i = 0; i < items.count; ++i) {
    const SlopeItem<T>& o = items.item[i];
    aligned &= rows_are_aligned<T>(o.dy, o.ld_dy) && rows_are_aligned<T>(o.pre, o.ld_pre) &&
               rows_are_aligned<T>(o.d_pre, o.ld_d_pre) && o.columns % lanes_of_vector<T> == 0;
    sums |= o.sums != nullptr;
    needed |= o.sums || o.d_pre;
  }
  if (!needed || rows == 0) return Status::ok;
  constexpr int wide = lanes_of_vector<T>;
  const Status status = aligned ? launch(context, tall_launch(items.widest(), rows, wide, items.count),
                                         slope_rows<T, wide>, items, rows, activation)
                                : launch(context, tall_launch(items.widest(), rows, 1, items.count), slope_rows<T, 1>,
                                         items, rows, activation);
  if (status != Status::ok || !sums) return status;
  return join_sums(context, items, column_tiles(rows));
}

// Bytes of slope() for the sums of one output.
constexpr std::size_t sums_bytes(std::int64_t rows, std::int64_t columns) {
  return static_cast<std::size_t>(column_tiles(rows) * columns) * sizeof(float);
}

}  // namespace comera::kernels::cuda
