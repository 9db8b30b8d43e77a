// AdamW, and the sums of squares that clipping needs.
#include "kernels/optimizer.h"

#include "kernels/cpu/common/adamw_vector.h"
#include "kernels/cpu/common/many_tensors.h"
#include "kernels/cpu/common/simd.h"
#include "kernels/cpu/ops.h"

namespace comera::kernels::COMERA_CPU {
namespace {

void update(const AdamwTensor& t, std::int64_t begin, std::int64_t end, double gradient_scale) {
  const AdamwVector adamw(AdamwFactors(*t.scalars, gradient_scale, t.rate_scale));
  float *w = static_cast<float*>(t.value), *m = static_cast<float*>(t.moment1), *v = static_cast<float*>(t.moment2);
  const float* gradient = static_cast<const float*>(t.gradient);
  sweep(begin, end, [&](std::int64_t i, auto lanes) {
    const VectorMoments now = adamw.new_moments({load(m + i, lanes), load(v + i, lanes)}, load(gradient + i, lanes));
    store(m + i, now.first, lanes);
    store(v + i, now.second, lanes);
    store(w + i, adamw.new_value(now, load(w + i, lanes)), lanes);
  });
}

Status run(const Context& context, const Adamw& a) {
  if (context.dtype != DType::f32) return Status::unsupported_dtype;
  if (a.scalars->finite == 0) return Status::ok;
  for_many(context, a.tensors, a.count, [&](const AdamwTensor& t, std::int64_t begin, std::int64_t end, std::int64_t) {
    update(t, begin, end, a.scalars->gradient_scale);
  });
  return Status::ok;
}

Status run(const Context& context, const Decay& a) {
  if (context.dtype != DType::f32) return Status::unsupported_dtype;
  if (a.scalars->finite == 0) return Status::ok;
  for_many(context, a.tensors, a.count, [&](const DecayTensor& t, std::int64_t begin, std::int64_t end, std::int64_t) {
    const F factor = set(static_cast<float>(1 - t.scalars->learning_rate * t.scalars->weight_decay));
    float* w = static_cast<float*>(t.value);
    sweep(begin, end, [&](std::int64_t i, auto lanes) { store(w + i, load(w + i, lanes) * factor, lanes); });
  });
  return Status::ok;
}

std::size_t square_sum_workspace(const Context&, const SquareSum& a) {
  return static_cast<std::size_t>(many_tiles(a.tensors, a.count)) * sizeof(double);
}

Status run(const Context& context, const SquareSum& a) {
  if (context.dtype != DType::f32) return Status::unsupported_dtype;
  if (context.workspace_bytes < square_sum_workspace(context, a)) return Status::workspace_too_small;
  double* partial = static_cast<double*>(context.workspace);
  const std::int64_t tiles = many_tiles(a.tensors, a.count);
  for (std::int64_t tile = 0; tile < tiles; ++tile) partial[tile] = 0;
  for_many(context, a.tensors, a.count,
           [&](const ConstTensor& t, std::int64_t begin, std::int64_t end, std::int64_t tile) {
             const float* x = static_cast<const float*>(t.data);
             DoubleSum sum;
             sweep(begin, end, [&](std::int64_t i, auto lanes) {
               __builtin_prefetch(x + i + 1024);  // the hardware prefetches a single stream less far ahead
               sum.add_product(load(x + i, lanes), load(x + i, lanes));
             });
             partial[tile] += sum.total();
           });
  double sum = 0;
  for (std::int64_t tile = 0; tile < tiles; ++tile) sum += partial[tile];
  *a.result = sum;
  return Status::ok;
}

Status run(const Context&, const ClipGradient& a) {
  const double norm = __builtin_sqrt(*a.square_sum);
  a.scalars->gradient_scale = a.max_norm > 0 && norm > a.max_norm ? a.max_norm / norm : 1;
  a.scalars->finite = __builtin_isfinite(norm) && __builtin_isfinite(*a.loss) && __builtin_isfinite(*a.applied) ? 1 : 0;
  return Status::ok;
}

}  // namespace

void bind(Op<Adamw>& op) { op.run = run; }
void bind(Op<Decay>& op) { op.run = run; }
void bind(Op<SquareSum>& op) { op.run = run, op.workspace_bytes = square_sum_workspace; }
void bind(Op<ClipGradient>& op) { op.run = run; }

}  // namespace comera::kernels::COMERA_CPU
