// The update of APOLLO-Mini.
#include "kernels/apollo.h"
#include "kernels/cuda/common/element.h"
#include "kernels/cuda/common/runtime.h"
#include "kernels/cuda/ops.h"

namespace comera::kernels::cuda {
namespace {

constexpr int threads = 256, warps = threads / warp_size;

// A block computes 32 columns of P^T G, or 8 elements of G P with one warp each. It draws P in pieces of 256 entries.
// Bound by memory traffic: 4 bytes read per number.
__global__ void __launch_bounds__(threads) project(const ApolloProject a) {
  begin_kernel();
  __shared__ float p[threads], sums[warps][warp_size];
  const SketchRule rule = rule_of(a);
  const int lane = threadIdx.x % warp_size, warp = threadIdx.x / warp_size;
  const std::int64_t inner = a.projects_rows() ? a.rows : a.columns, width = a.projects_rows() ? warp_size : warps;
  const auto* g = static_cast<const float*>(a.gradient);
  for (std::int64_t first = blockIdx.x * width; first < a.size(); first += gridDim.x * width) {
    const std::int64_t mine = first + (a.projects_rows() ? lane : warp);
    float sum = 0;
    for (std::int64_t piece = 0; piece < inner; piece += threads) {
      if (piece + threadIdx.x < inner) p[threadIdx.x] = entry_of(rule, piece + threadIdx.x);
      __syncthreads();
      const std::int64_t count = inner - piece < threads ? inner - piece : threads;
      for (std::int64_t i = a.projects_rows() ? warp : lane; mine < a.size() && i < count;
           i += a.projects_rows() ? warps : warp_size)
        sum = fmaf(p[i], g[a.projects_rows() ? (piece + i) * a.columns + mine : mine * a.columns + piece + i], sum);
      __syncthreads();
    }
    sums[warp][lane] = sum;
    __syncthreads();
    const bool writes = a.projects_rows() ? warp == 0 : lane == 0;
    if (writes && mine < a.size()) {
      float total = 0;
      for (int i = 0; i < (a.projects_rows() ? warps : warp_size); ++i)
        total += a.projects_rows() ? sums[i][lane] : sums[warp][i];
      static_cast<float*>(a.result)[mine] = total;
    }
    __syncthreads();
  }
}

__global__ void factor(ApolloFactor a) {
  begin_kernel();
  write_factor(a);
}

// Bound by memory traffic: 8 bytes read and 4 written per number.
__global__ void __launch_bounds__(threads) add_by_factor(const AddByFactor a) {
  begin_kernel();
  const auto by = static_cast<float>(*a.factor);
  const auto* x = static_cast<const float*>(a.x);
  auto* y = static_cast<float*>(a.y);
  for (std::int64_t i = flat_index(); i < a.count; i += flat_stride()) y[i] = fmaf(by, x[i], y[i]);
}

Status run(const Context& context, const ApolloProject& a) {
  const Launch shape{grid_for(a.size(), a.projects_rows() ? warp_size : warps), threads};
  return with_element(context, [&](auto) { return launch(context, shape, project, a); });
}

Status run(const Context& context, const ApolloFactor& a) { return launch(context, {1, 1}, factor, a); }

Status run(const Context& context, const AddByFactor& a) {
  return with_element(context, [&](auto) {
    return launch(context, {grid_for(a.count, threads), threads}, add_by_factor, a);
  });
}

}  // namespace

void bind(Op<ApolloProject>& op) { op.run = run; }
void bind(Op<ApolloFactor>& op) { op.run = run; }
void bind(Op<AddByFactor>& op) { op.run = run; }

}  // namespace comera::kernels::cuda
