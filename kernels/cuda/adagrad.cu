// Adagrad and SGD over many tensors.
#include "kernels/adagrad.h"
#include "kernels/cuda/common/eights.h"
#include "kernels/cuda/common/element.h"
#include "kernels/cuda/common/many_tensors.h"
#include "kernels/cuda/ops.h"

namespace comera::kernels::cuda {
namespace {

constexpr int threads = 256;
constexpr std::int64_t update_tile = 2048;  // elements of a block

struct AdagradTile {
  double gradient_scale;
  float epsilon;

  __device__ void operator()(const AdagradTensor& t, std::int64_t begin, std::int64_t end, std::uint32_t) const {
    const StepFactors factors(*t.scalars, gradient_scale);
    auto *w = static_cast<float*>(t.value), *s = static_cast<float*>(t.square_sum);
    const auto* gradient = static_cast<const float*>(t.gradient);
    const bool aligned = begin_aligned(gradient, w, s);
    for (std::int64_t i = begin + 4 * threadIdx.x; i < end; i += 4 * threads) {
      const Four read = get<Four>(gradient, i, end, aligned);
      Four value = get<Four>(w, i, end, aligned), sum = get<Four>(s, i, end, aligned);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float g = read.v[j] * factors.scale;
        sum.v[j] = new_square_sum(sum.v[j], g);
        value.v[j] = stepped(factors, value.v[j], adagrad_direction(g, sum.v[j], epsilon));
      }
      put(s, i, end, aligned, sum);
      put(w, i, end, aligned, value);
    }
  }
};

// Bound by memory traffic: 12 bytes read and 8 written per parameter.
__global__ void __launch_bounds__(threads)
    adagrad(const TensorBatch<AdagradTensor> __grid_constant__ batch, float epsilon, const StepScalars* scalars) {
  begin_kernel();
  if (scalars->finite == 0) return;
  for_tiles(batch, update_tile, AdagradTile{scalars->gradient_scale, epsilon});
}

Status run(const Context& context, const Adagrad& a) {
  return with_element(context, [&](auto) {
    return for_batches(a.tensors, a.count, update_tile, [&](const TensorBatch<AdagradTensor>& batch, std::int64_t) {
      return launch(context, {grid_for(batch.tiles, 1), threads}, adagrad, batch, static_cast<float>(a.epsilon),
                    a.scalars);
    });
  });
}

struct SgdTile {
  double gradient_scale;

  __device__ void operator()(const SgdTensor& t, std::int64_t begin, std::int64_t end, std::uint32_t) const {
    const StepFactors factors(*t.scalars, gradient_scale);
    auto* w = static_cast<float*>(t.value);
    const auto* gradient = static_cast<const float*>(t.gradient);
    const bool aligned = begin_aligned(gradient, w);
    for (std::int64_t i = begin + 4 * threadIdx.x; i < end; i += 4 * threads) {
      const Four read = get<Four>(gradient, i, end, aligned);
      Four value = get<Four>(w, i, end, aligned);
#pragma unroll
      for (int j = 0; j < 4; ++j) value.v[j] = stepped(factors, value.v[j], read.v[j] * factors.scale);
      put(w, i, end, aligned, value);
    }
  }
};

// Bound by memory traffic: 8 bytes read and 4 written per parameter.
__global__ void __launch_bounds__(threads)
    sgd(const TensorBatch<SgdTensor> __grid_constant__ batch, const StepScalars* scalars) {
  begin_kernel();
  if (scalars->finite == 0) return;
  for_tiles(batch, update_tile, SgdTile{scalars->gradient_scale});
}

Status run(const Context& context, const Sgd& a) {
  return with_element(context, [&](auto) {
    return for_batches(a.tensors, a.count, update_tile, [&](const TensorBatch<SgdTensor>& batch, std::int64_t) {
      return launch(context, {grid_for(batch.tiles, 1), threads}, sgd, batch, a.scalars);
    });
  });
}

}  // namespace

void bind(Op<Adagrad>& op) { op.run = run; }
void bind(Op<Sgd>& op) { op.run = run; }

}  // namespace comera::kernels::cuda
