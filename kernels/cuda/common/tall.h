// Passes around the tall products of a linear layer: bias and activation after them; activation slope and column sums
// before the products of the backward. Each is one pass over [K, N], bound by memory traffic. The outputs of a layer
// (q, k, v) share one launch.
#pragma once

#include "kernels/cuda/common/activation.h"
#include "kernels/cuda/common/vector.h"
#include "kernels/cuda/common/workspace.h"
#include "kernels/tt_linear.h"

namespace comera::kernels::cuda {

constexpr unsigned tall_rows = 8;                 // rows of a block at a time, 32 threads per row
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

// d_pre = dy * act'(pre + pre_bias), if `pre` and `d_pre` are set; and column sums over each tile of rows, if `sums`
// is set.
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

template <class T, int lanes>
__global__ void finish_rows(const TallItems<FinishItem<T>> __grid_constant__ items, std::int64_t rows,
                            Activation activation) {
  begin_kernel();
  const FinishItem<T>& o = items.item[blockIdx.z];
  const std::int64_t column = (static_cast<std::int64_t>(blockIdx.x) * warp_size + threadIdx.x) * lanes;
  if (column >= o.columns) return;
  float bias[lanes] = {}, value[lanes];
  if (o.bias) {
#pragma unroll
    for (int j = 0; j < lanes; ++j) bias[j] = o.bias[column + j];
  }
  const std::int64_t first = blockIdx.y * rows_per_tile(rows), last = min(rows, first + rows_per_tile(rows));
  for (std::int64_t row = first + threadIdx.y; row < last; row += tall_rows) {
    const std::int64_t at = row * o.ld + column;
    load_floats<lanes>(o.y + at, value);
#pragma unroll
    for (int j = 0; j < lanes; ++j) value[j] += bias[j];
    if (o.pre) store_floats<lanes>(value, o.pre + at);
#pragma unroll
    for (int j = 0; j < lanes; ++j) value[j] = activate<float>(activation, value[j]);
    store_floats<lanes>(value, o.y + at);
  }
}

// One tile of rows: applies the slope, sums the columns in each of the eight thread rows, then adds these in order.
template <class T, int lanes>
__global__ void slope_rows(const TallItems<SlopeItem<T>> __grid_constant__ items, std::int64_t rows,
                           Activation activation) {
  begin_kernel();
  __shared__ float parts[tall_rows][warp_size * lanes];
  const SlopeItem<T>& o = items.item[blockIdx.z];
  const std::int64_t column = (static_cast<std::int64_t>(blockIdx.x) * warp_size + threadIdx.x) * lanes;
  float bias[lanes] = {}, sum[lanes] = {}, value[lanes], pre[lanes];
  const bool inside = column < o.columns;
  if (inside && o.pre_bias) {
#pragma unroll
    for (int j = 0; j < lanes; ++j) bias[j] = o.pre_bias[column + j];
  }
  const std::int64_t first = blockIdx.y * rows_per_tile(rows), last = min(rows, first + rows_per_tile(rows));
  for (std::int64_t row = first + threadIdx.y; inside && row < last; row += tall_rows) {
    load_floats<lanes>(o.dy + row * o.ld_dy + column, value);
    if (o.pre) {
      load_floats<lanes>(o.pre + row * o.ld_pre + column, pre);
#pragma unroll
      for (int j = 0; j < lanes; ++j) value[j] *= activation_slope<float>(activation, pre[j] + bias[j]);
    }
    if (o.d_pre) store_floats<lanes>(value, o.d_pre + row * o.ld_d_pre + column);
#pragma unroll
    for (int j = 0; j < lanes; ++j) sum[j] += value[j];
  }
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
    return launch(context, tall_launch(items.widest(), rows, wide, items.count), finish_rows<T, wide>, items, rows,
                  activation);
  return launch(context, tall_launch(items.widest(), rows, 1, items.count), finish_rows<T, 1>, items, rows, activation);
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
