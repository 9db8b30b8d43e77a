// AdamW, sums of squares and gradient clipping over many tensors.
#include "kernels/cuda/common/eights.h"
#include "kernels/cuda/common/element.h"
#include "kernels/cuda/common/many_tensors.h"
#include "kernels/cuda/common/reduce.h"
#include "kernels/cuda/ops.h"
#include "kernels/optimizer.h"

namespace comera::kernels::cuda {
namespace {

constexpr int threads = 256;
constexpr std::int64_t update_tile = 2048, sum_tile = 8192;  // elements of a block

struct UpdateTile {
  double gradient_scale;

  __device__ void operator()(const AdamwTensor& t, std::int64_t begin, std::int64_t end, std::uint32_t) const {
    const AdamwFactors factors(*t.scalars, gradient_scale, t.rate_scale);
    auto *w = static_cast<float*>(t.value), *m = static_cast<float*>(t.moment1), *v = static_cast<float*>(t.moment2);
    const auto* g = static_cast<const float*>(t.gradient);
    const bool aligned = begin_aligned(g, w, m, v);
    for (std::int64_t i = begin + 4 * threadIdx.x; i < end; i += 4 * threads) {
      const Four gradient = get<Four>(g, i, end, aligned);
      Four value = get<Four>(w, i, end, aligned), first = get<Four>(m, i, end, aligned),
           second = get<Four>(v, i, end, aligned);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const Moments now = new_moments(factors, {first.v[j], second.v[j]}, gradient.v[j]);
        first.v[j] = now.first, second.v[j] = now.second;
        value.v[j] = new_value(factors, now, value.v[j]);
      }
      put(m, i, end, aligned, first);
      put(v, i, end, aligned, second);
      put(w, i, end, aligned, value);
    }
  }
};

// Bound by memory traffic: 16 bytes read and 12 written per parameter.
__global__ void __launch_bounds__(threads)
    update(const TensorBatch<AdamwTensor> __grid_constant__ batch, const StepScalars* scalars) {
  begin_kernel();
  if (scalars->finite == 0) return;
  for_tiles(batch, update_tile, UpdateTile{scalars->gradient_scale});
}

Status run(const Context& context, const Adamw& a) {
  return with_element(context, [&](auto) {
    return for_batches(a.tensors, a.count, update_tile, [&](const TensorBatch<AdamwTensor>& batch, std::int64_t) {
      return launch(context, {grid_for(batch.tiles, 1), threads}, update, batch, a.scalars);
    });
  });
}

struct DecayTile {
  __device__ void operator()(const DecayTensor& t, std::int64_t begin, std::int64_t end, std::uint32_t) const {
    const auto factor = static_cast<float>(1 - t.scalars->learning_rate * t.scalars->weight_decay);
    auto* w = static_cast<float*>(t.value);
    const bool aligned = begin_aligned(w);
    for (std::int64_t i = begin + 4 * threadIdx.x; i < end; i += 4 * threads) {
      Four value = get<Four>(w, i, end, aligned);
#pragma unroll
      for (int j = 0; j < 4; ++j) value.v[j] *= factor;
      put(w, i, end, aligned, value);
    }
  }
};

// Bound by memory traffic: 4 bytes read and written per parameter.
__global__ void __launch_bounds__(threads)
    decay(const TensorBatch<DecayTensor> __grid_constant__ batch, const StepScalars* scalars) {
  begin_kernel();
  if (scalars->finite == 0) return;
  for_tiles(batch, update_tile, DecayTile{});
}

Status run(const Context& context, const Decay& a) {
  return with_element(context, [&](auto) {
    return for_batches(a.tensors, a.count, update_tile, [&](const TensorBatch<DecayTensor>& batch, std::int64_t) {
      return launch(context, {grid_for(batch.tiles, 1), threads}, decay, batch, a.scalars);
    });
  });
}

COMERA_DEVICE void add_squares(const Four& x, double& sum) {
#pragma unroll
  for (int j = 0; j < 4; ++j) sum = fma(static_cast<double>(x.v[j]), static_cast<double>(x.v[j]), sum);
}

struct SumTile {
  static constexpr int at_once = 4;  // concurrent loads of a thread
  double* partial;

  __device__ void operator()(const ConstTensor& t, std::int64_t begin, std::int64_t end, std::uint32_t tile) const {
    const auto* x = static_cast<const float*>(t.data);
    const bool aligned = begin_aligned(x);
    double sum = 0;
    std::int64_t i = begin + 4 * threadIdx.x;
    for (; aligned && i + 4 * (at_once - 1) * threads + 4 <= end; i += 4 * at_once * threads) {
      Four four[at_once];
#pragma unroll
      for (int k = 0; k < at_once; ++k) load_floats<4>(x + i + 4 * k * threads, four[k].v);
#pragma unroll
      for (int k = 0; k < at_once; ++k) add_squares(four[k], sum);
    }
    for (; i < end; i += 4 * threads) add_squares(get<Four>(x, i, end, aligned), sum);
    sum = sum_of_block(sum);
    if (threadIdx.x == 0) partial[tile] = sum;
  }
};

// Bound by memory traffic: 4 bytes read per number.
__global__ void __launch_bounds__(threads)
    square_tiles(const TensorBatch<ConstTensor> __grid_constant__ batch, double* partial) {
  begin_kernel();
  for_tiles(batch, sum_tile, SumTile{partial});
}

__global__ void __launch_bounds__(1024) add_tiles(std::int64_t tiles, const double* partial, double* result) {
  begin_kernel();
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < tiles; i += blockDim.x) sum += partial[i];
  sum = sum_of_block(sum);
  if (threadIdx.x == 0) *result = sum;
}

std::size_t square_sum_workspace(const Context&, const SquareSum& a) {
  return static_cast<std::size_t>(tiles_of_many(a.tensors, a.count, sum_tile)) * sizeof(double);
}

Status run(const Context& context, const SquareSum& a) {
  if (context.workspace_bytes < square_sum_workspace(context, a)) return Status::workspace_too_small;
  auto* partial = static_cast<double*>(context.workspace);
  const Status status = with_element(context, [&](auto) {
    return for_batches(a.tensors, a.count, sum_tile, [&](const TensorBatch<ConstTensor>& batch, std::int64_t before) {
      return launch(context, {grid_for(batch.tiles, 1), threads}, square_tiles, batch, partial + before);
    });
  });
  if (status != Status::ok) return status;
  return launch(context, {1, 1024}, add_tiles, tiles_of_many(a.tensors, a.count, sum_tile), partial, a.result);
}

COMERA_DEVICE bool is_finite(double x) { return x - x == 0; }

__global__ void clip(ClipGradient a) {
  begin_kernel();
  const double norm = sqrt(*a.square_sum);
  a.scalars->gradient_scale = a.max_norm > 0 && norm > a.max_norm ? a.max_norm / norm : 1;
  a.scalars->finite = is_finite(norm) && is_finite(*a.loss) && is_finite(*a.applied) ? 1 : 0;
}

Status run(const Context& context, const ClipGradient& a) { return launch(context, {1, 1}, clip, a); }

}  // namespace

void bind(Op<Adamw>& op) { op.run = run; }
void bind(Op<Decay>& op) { op.run = run; }
void bind(Op<SquareSum>& op) { op.run = run, op.workspace_bytes = square_sum_workspace; }
void bind(Op<ClipGradient>& op) { op.run = run; }

}  // namespace comera::kernels::cuda
