// AdamW with moments of 8 bits: a block of threads per block of 256 elements, one element per thread.
#include "kernels/adamw8.h"
#include "kernels/cuda/common/element.h"
#include "kernels/cuda/common/many_tensors.h"
#include "kernels/cuda/common/reduce.h"
#include "kernels/cuda/ops.h"

namespace comera::kernels::cuda {
namespace {

constexpr int threads = static_cast<int>(adamw8_block);

struct Books {
  float value1[256], value2[256], middle1[256], middle2[256];
};

struct Update8 {
  double gradient_scale;
  const Books* books;  // shared memory

  __device__ void operator()(const Adamw8Tensor& t, std::int64_t begin, std::int64_t end, std::uint32_t) const {
    const AdamwFactors factors(*t.scalars, gradient_scale);
    const std::int64_t i = begin + threadIdx.x, block = begin / adamw8_block;
    const bool has = i < end;
    Moments now{};
    if (has) {
      const Moments old{books->value1[t.codes1[i]] * t.largest1[block], books->value2[t.codes2[i]] * t.largest2[block]};
      now = new_moments(factors, old, static_cast<const float*>(t.gradient)[i]);
      float* const value = static_cast<float*>(t.value) + i;
      *value = new_value(factors, now, *value);
    }
    const float largest1 = reduce_block(fabsf(now.first), 0.0f, Larger{}),
                largest2 = reduce_block(now.second, 0.0f, Larger{});
    if (threadIdx.x == 0) t.largest1[block] = largest1, t.largest2[block] = largest2;
    if (!has) return;
    t.codes1[i] = code_of(books->middle1, now.first, largest1, true);
    t.codes2[i] = code_of(books->middle2, now.second, largest2, false);
  }
};

// Bound by memory traffic: per number 4 bytes of gradient, 4 of weight read and written, 2 of codes read and written.
__global__ void __launch_bounds__(threads)
    adamw8(const TensorBatch<Adamw8Tensor> __grid_constant__ batch, const StepScalars* scalars) {
  begin_kernel();
  __shared__ Books books;
  const int code = static_cast<int>(threadIdx.x);
  books.value1[code] = code_value(code, true), books.value2[code] = code_value(code, false);
  books.middle1[code] = code_middle(code, true), books.middle2[code] = code_middle(code, false);
  __syncthreads();
  if (scalars->finite == 0) return;
  for_tiles(batch, adamw8_block, Update8{scalars->gradient_scale, &books});
}

Status run(const Context& context, const Adamw8& a) {
  if (context.dtype != DType::f32 && context.dtype != DType::bf16) return Status::unsupported_dtype;
  return for_batches(a.tensors, a.count, adamw8_block, [&](const TensorBatch<Adamw8Tensor>& batch, std::int64_t) {
    return launch(context, {grid_for(batch.tiles, 1), threads}, adamw8, batch, a.scalars);
  });
}

}  // namespace

void bind(Op<Adamw8>& op) { op.run = run; }

}  // namespace comera::kernels::cuda
