// Updates inside the backward.
#include "kernels/cuda/common/element.h"
#include "kernels/cuda/common/reduce.h"
#include "kernels/cuda/common/runtime.h"
#include "kernels/cuda/common/workspace.h"
#include "kernels/cuda/ops.h"
#include "kernels/lomo.h"

namespace comera::kernels::cuda {
namespace {

constexpr int threads = 256, warps = threads / warp_size;

COMERA_DEVICE double square(float x) { return static_cast<double>(x) * static_cast<double>(x); }

__global__ void factors(LomoFactors a) {
  begin_kernel();
  write_factors(a);
}

struct Sums {
  Parts parts;
  double *rows, *columns;  // of squares: [rows], [columns]

  Sums(void* memory, const AdaLomoMeans& a) : parts(memory) {
    rows = parts.take<double>(a.rows), columns = parts.take<double>(a.columns);
  }
};

std::size_t workspace_bytes(const Context&, const AdaLomoMeans& a) { return Sums(nullptr, a).parts.bytes(); }

// A warp per row. Bound by memory traffic: 4 bytes read per number.
__global__ void __launch_bounds__(threads) sum_rows(const AdaLomoMeans a, double* sums) {
  begin_kernel();
  const int lane = threadIdx.x % warp_size;
  const auto* g = static_cast<const float*>(a.gradient);
  for (std::int64_t i = flat_index() / warp_size; i < a.rows; i += flat_stride() / warp_size) {
    double sum = 0;
    for (std::int64_t j = lane; j < a.columns; j += warp_size) sum += square(g[i * a.columns + j]);
    sum = sum_of_warp(sum);
    if (lane == 0) sums[i] = sum;
  }
}

// A block per 32 columns; its warps take rows in turn. Bound by memory traffic: 4 bytes read per number.
__global__ void __launch_bounds__(threads) sum_columns(const AdaLomoMeans a, double* sums) {
  begin_kernel();
  __shared__ double parts[warps][warp_size];
  const int lane = threadIdx.x % warp_size, warp = threadIdx.x / warp_size;
  const auto* g = static_cast<const float*>(a.gradient);
  for (std::int64_t first = blockIdx.x * warp_size; first < a.columns; first += gridDim.x * warp_size) {
    const std::int64_t j = first + lane;
    double sum = 0;
    for (std::int64_t i = warp; j < a.columns && i < a.rows; i += warps) sum += square(g[i * a.columns + j]);
    parts[warp][lane] = sum;
    __syncthreads();
    if (warp == 0 && j < a.columns) {
      double total = 0;
      for (int k = 0; k < warps; ++k) total += parts[k][lane];
      sums[j] = total;
    }
    __syncthreads();
  }
}

__global__ void __launch_bounds__(threads) add_rows(const AdaLomoMeans a, const double* rows) {
  begin_kernel();
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < a.rows; i += threads) sum += rows[i];
  sum = sum_of_block(sum);
  if (threadIdx.x == 0) *a.applied += sum;
}

__global__ void __launch_bounds__(threads) mix(const AdaLomoMeans a, const double* rows, const double* columns) {
  begin_kernel();
  if (!may_apply(*a.applied, *a.loss)) return;
  const double old = share_of_old(a);
  for (std::int64_t i = flat_index(); i < a.rows + a.columns; i += flat_stride()) {
    const bool row = i < a.rows;
    double& mean = row ? a.row[i] : a.column[i - a.rows];
    const double sum = row ? rows[i] : columns[i - a.rows], count = static_cast<double>(row ? a.columns : a.rows);
    mean = old * mean + (1 - old) * (sum / count + a.floor);
  }
}

Status run(const Context& context, const AdaLomoMeans& a) {
  if (context.workspace_bytes < workspace_bytes(context, a)) return Status::workspace_too_small;
  const Sums sums(context.workspace, a);
  Status status = with_element(context, [&](auto) {
    return launch(context, {grid_for(a.rows, warps), threads}, sum_rows, a, sums.rows);
  });
  if (status == Status::ok)
    status = launch(context, {grid_for(a.columns, warp_size), threads}, sum_columns, a, sums.columns);
  if (status == Status::ok) status = launch(context, {1, threads}, add_rows, a, sums.rows);
  if (status != Status::ok) return status;
  return launch(context, {grid_for(a.rows + a.columns, threads), threads}, mix, a, sums.rows, sums.columns);
}

// A block's part of the sums: its rows are fixed by the shape.
constexpr std::int64_t rows_of_block = 8;

std::size_t workspace_bytes(const Context&, const AdaLomoFactors& a) {
  return static_cast<std::size_t>(blocks_for(a.rows, rows_of_block)) * sizeof(AdaLomoSums);
}

__device__ void sum_block(AdaLomoSums& sums) {
  sums.update = sum_of_block(sums.update), sums.value = sum_of_block(sums.value), sums.rows = sum_of_block(sums.rows);
}

// Bound by memory traffic: 8 bytes read per number.
__global__ void __launch_bounds__(threads) sum_updates(const AdaLomoFactors a, AdaLomoSums* blocks) {
  begin_kernel();
  const auto *g = static_cast<const float*>(a.gradient), *w = static_cast<const float*>(a.value);
  for (std::int64_t block = blockIdx.x; block * rows_of_block < a.rows; block += gridDim.x) {
    AdaLomoSums sums;
    for (std::int64_t i = block * rows_of_block; i < a.rows && i < (block + 1) * rows_of_block; ++i) {
      double update = 0;
      for (std::int64_t j = threadIdx.x; j < a.columns; j += threads) {
        update += square(g[i * a.columns + j]) / a.column[j];
        sums.value += square(w[i * a.columns + j]);
      }
      sums.update += update / a.row[i];
      if (threadIdx.x == 0) sums.rows += a.row[i];
    }
    sum_block(sums);
    if (threadIdx.x == 0) blocks[block] = sums;
  }
}

__global__ void __launch_bounds__(threads) finish(AdaLomoFactors a, const AdaLomoSums* blocks, std::int64_t count) {
  begin_kernel();
  AdaLomoSums sums;
  for (std::int64_t i = threadIdx.x; i < count; i += threads)
    sums.update += blocks[i].update, sums.value += blocks[i].value, sums.rows += blocks[i].rows;
  sum_block(sums);
  if (threadIdx.x == 0) write_factors(a, sums);
}

Status run(const Context& context, const AdaLomoFactors& a) {
  if (context.workspace_bytes < workspace_bytes(context, a)) return Status::workspace_too_small;
  auto* blocks = static_cast<AdaLomoSums*>(context.workspace);
  const std::int64_t count = blocks_for(a.rows, rows_of_block);
  const Status status = with_element(context, [&](auto) {
    return launch(context, {grid_for(count, 1), threads}, sum_updates, a, blocks);
  });
  if (status != Status::ok) return status;
  return launch(context, {1, threads}, finish, a, blocks, count);
}

// Bound by memory traffic: 8 bytes read and 4 written per number.
__global__ void __launch_bounds__(threads) add(const LomoAdd a) {
  begin_kernel();
  const auto own = static_cast<float>(a.factors[0]), by = static_cast<float>(a.factors[1]);
  if (by == 0) return;
  const auto* g = static_cast<const float*>(a.gradient);
  auto* w = static_cast<float*>(a.value);
  for (std::int64_t at = flat_index(); at < a.rows * a.columns; at += flat_stride()) {
    float update = by * g[at];
    if (a.row)
      update *=
          static_cast<float>(1 / sqrt(a.row[at / a.columns])) * static_cast<float>(1 / sqrt(a.column[at % a.columns]));
    w[at] = fmaf(own, w[at], update);
  }
}

Status run(const Context& context, const LomoAdd& a) {
  return with_element(context, [&](auto) {
    return launch(context, {grid_for(a.rows * a.columns, threads), threads}, add, a);
  });
}

Status run(const Context& context, const LomoFactors& a) { return launch(context, {1, 1}, factors, a); }

}  // namespace

void bind(Op<LomoFactors>& op) { op.run = run; }
void bind(Op<AdaLomoMeans>& op) { op.run = run, op.workspace_bytes = workspace_bytes; }
void bind(Op<AdaLomoFactors>& op) { op.run = run, op.workspace_bytes = workspace_bytes; }
void bind(Op<LomoAdd>& op) { op.run = run; }

}  // namespace comera::kernels::cuda
