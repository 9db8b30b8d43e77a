// Pooling of tokens. Bound by memory traffic: the tokens are read once (forward) or written once (backward).
#include "kernels/cuda/common/rows.h"
#include "kernels/cuda/ops.h"
#include "kernels/pooling.h"

namespace comera::kernels::cuda {
namespace {

constexpr int pool_warps = 8;                         // warps per block in the forward; each reads its own tokens
constexpr std::int64_t pool_columns = warp_size * 8;  // per block
constexpr std::int64_t spread_tokens = 16;            // per block in the backward

template <class Args>
__device__ std::int64_t pooled_rows(const Args& a, std::int64_t sequence) {
  return a.pooling == Pooling::mean ? a.lengths[sequence] : 1;
}

// Writes the pooled vector p for the columns of a block. Out is T, or float if the vector is scaled afterwards.
template <class T, class Out>
__global__ void __launch_bounds__(warp_size* pool_warps)
    pool(const PoolForward __grid_constant__ a, bool aligned, Out* p) {
  begin_kernel();
  alignas(16) __shared__ float sums[pool_warps][pool_columns];
  const std::int64_t first = blockIdx.x * pool_columns, at = first + threadIdx.x * 8;
  for (std::int64_t sequence = blockIdx.y; sequence < a.sequences; sequence += gridDim.y) {
    const std::int64_t rows = pooled_rows(a, sequence);
    const T* x = static_cast<const T*>(a.x) + sequence * a.length * a.columns;
    Eight sum{};
    for (std::int64_t t = threadIdx.y; t < rows; t += pool_warps) {
      const Eight token = get<Eight>(x + t * a.columns, at, a.columns, aligned);
#pragma unroll
      for (int j = 0; j < 8; ++j) sum.v[j] += token.v[j];
    }
    put(sums[threadIdx.y], threadIdx.x * 8, pool_columns, true, sum);
    __syncthreads();
    const int own = threadIdx.y * warp_size + threadIdx.x;  // a column of the block
    float joined = 0;
#pragma unroll
    for (int y = 0; y < pool_warps; ++y) joined += sums[y][own];
    if (first + own < a.columns)
      p[sequence * a.columns + first + own] = to_element<Out>(joined / static_cast<float>(rows));
    __syncthreads();  // the next iteration overwrites the sums
  }
}

template <class T>
__global__ void __launch_bounds__(row_threads)
    scale_to_one(const PoolForward __grid_constant__ a, bool aligned, const float* pooled) {
  begin_kernel();
  for (std::int64_t row = first_row(); row < a.sequences; row += row_stride()) {
    const float* p = pooled + row * a.columns;
    float square = 0;
    for (std::int64_t at = first_eight(); at < a.columns; at += eight_stride()) {
      const Eight x = get<Eight>(p, at, a.columns, aligned);
#pragma unroll
      for (int j = 0; j < 8; ++j) square = fmaf(x.v[j], x.v[j], square);
    }
    const float norm = max(sqrtf(sum_of_row(square)), static_cast<float>(smallest_norm));
    if (threadIdx.x == 0) static_cast<float*>(a.norm)[row] = norm;
    for (std::int64_t at = first_eight(); at < a.columns; at += eight_stride()) {
      Eight x = get<Eight>(p, at, a.columns, aligned);
#pragma unroll
      for (int j = 0; j < 8; ++j) x.v[j] /= norm;
      put(static_cast<T*>(a.y) + row * a.columns, at, a.columns, aligned, x);
    }
  }
}

template <class T, class Out>
Status run_pool(const Context& context, const PoolForward& a, Out* p) {
  const std::int64_t sequences = a.sequences < 65535 ? a.sequences : 65535;
  const dim3 grid(grid_for(a.columns, pool_columns), static_cast<unsigned>(sequences)), block(warp_size, pool_warps);
  return launch(context, {grid, block}, pool<T, Out>, a, all_aligned<T>(a.columns, a.x), p);
}

std::size_t forward_workspace(const Context&, const PoolForward& a) {
  return a.normalise ? static_cast<std::size_t>(a.sequences * a.columns) * sizeof(float) : 0;
}

Status run(const Context& context, const PoolForward& a) {
  if (context.workspace_bytes < forward_workspace(context, a)) return Status::workspace_too_small;
  return with_element(context, [&]<class T>(T) {
    if (!a.normalise) return run_pool<T>(context, a, static_cast<T*>(a.y));
    auto* pooled = static_cast<float*>(context.workspace);
    const Status status = run_pool<T>(context, a, pooled);
    if (status != Status::ok) return status;
    const bool aligned = all_aligned<T>(a.columns, a.y) && all_aligned<float>(a.columns, pooled);
    return launch(context, row_launch(a.sequences, a.columns), scale_to_one<T>, a, aligned,
                  static_cast<const float*>(pooled));
  });
}

// A block writes some tokens of a sequence; each block computes y . dy again.
template <class T>
__global__ void __launch_bounds__(row_threads) spread(const PoolBackward __grid_constant__ a, bool aligned) {
  begin_kernel();
  for (std::int64_t sequence = blockIdx.y; sequence < a.sequences; sequence += gridDim.y) {
    const std::int64_t rows = pooled_rows(a, sequence);
    const T *dy = static_cast<const T*>(a.dy) + sequence * a.columns,
            *y = static_cast<const T*>(a.y) + sequence * a.columns;
    float along = 0, divisor = static_cast<float>(rows);
    if (a.normalise) {
      for (std::int64_t i = threadIdx.x; i < a.columns; i += blockDim.x)
        along = fmaf(to_float(y[i]), to_float(dy[i]), along);
      along = sum_of_block(along);
      divisor *= static_cast<const float*>(a.norm)[sequence];
    }
    const std::int64_t begin = blockIdx.x * spread_tokens,
                       end = begin + spread_tokens < a.length ? begin + spread_tokens : a.length;
    for (std::int64_t at = threadIdx.x * 8; at < a.columns; at += blockDim.x * 8) {
      Eight d = get<Eight>(dy, at, a.columns, aligned), own{};
      if (a.normalise) own = get<Eight>(y, at, a.columns, aligned);
#pragma unroll
      for (int j = 0; j < 8; ++j) d.v[j] = fmaf(-own.v[j], along, d.v[j]) / divisor;
      for (std::int64_t t = begin; t < end; ++t)
        put(static_cast<T*>(a.dx) + (sequence * a.length + t) * a.columns, at, a.columns, aligned,
            t < rows ? d : Eight{});
    }
  }
}

Status run(const Context& context, const PoolBackward& a) {
  const std::int64_t sequences = a.sequences < 65535 ? a.sequences : 65535;
  const std::int64_t threads = blocks_for(blocks_for(a.columns, 8), warp_size) * warp_size;
  const dim3 grid(grid_for(a.length, spread_tokens), static_cast<unsigned>(sequences));
  return with_element(context, [&]<class T>(T) {
    const bool aligned = all_aligned<T>(a.columns, a.dy, a.normalise ? a.y : nullptr, a.dx);
    return launch(context, {grid, static_cast<unsigned>(threads < row_threads ? threads : row_threads)}, spread<T>, a,
                  aligned);
  });
}

}  // namespace

void bind(Op<PoolForward>& op) { op.run = run, op.workspace_bytes = forward_workspace; }
void bind(Op<PoolBackward>& op) { op.run = run; }

}  // namespace comera::kernels::cuda
