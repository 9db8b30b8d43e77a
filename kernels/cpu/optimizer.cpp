// AdamW, and the sums of squares that clipping needs.
#include "kernels/optimizer.h"

#include "kernels/cpu/common/many_tensors.h"
#include "kernels/cpu/common/simd.h"
#include "kernels/cpu/ops.h"

namespace comera::kernels::COMERA_CPU {
namespace {

// The scalars of a parameter group, in the form that the loop uses.
struct AdamwFactors {
  F scale, beta1, rest1, beta2, rest2, correction1, correction2, epsilon, decay, rate;
  AdamwFactors(const AdamwScalars& s, double gradient_scale)
      : scale(set(static_cast<float>(gradient_scale))),
        beta1(set(static_cast<float>(s.beta1))),
        rest1(set(static_cast<float>(1 - s.beta1))),
        beta2(set(static_cast<float>(s.beta2))),
        rest2(set(static_cast<float>(1 - s.beta2))),
        correction1(set(static_cast<float>(1 / s.correction1))),
        correction2(set(static_cast<float>(1 / s.correction2))),
        epsilon(set(static_cast<float>(s.epsilon))),
        decay(set(static_cast<float>(s.weight_decay))),
        rate(set(static_cast<float>(s.learning_rate))) {}
};

void update(const AdamwTensor& t, std::int64_t begin, std::int64_t end, double gradient_scale) {
  const AdamwFactors f(*t.scalars, gradient_scale);
  float *w = static_cast<float*>(t.value), *m = static_cast<float*>(t.moment1), *v = static_cast<float*>(t.moment2);
  const float* gradient = static_cast<const float*>(t.gradient);
  sweep(begin, end, [&](std::int64_t i, auto lanes) {
    const F g = load(gradient + i, lanes) * f.scale, value = load(w + i, lanes);
    const F m_new = fma(f.beta1, load(m + i, lanes), f.rest1 * g);
    const F v_new = fma(f.beta2, load(v + i, lanes), f.rest2 * g * g);
    const F direction = (m_new * f.correction1) / (sqrt(v_new * f.correction2) + f.epsilon);
    store(m + i, m_new, lanes);
    store(v + i, v_new, lanes);
    store(w + i, fnma(f.rate, fma(f.decay, value, direction), value), lanes);
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
  a.scalars->finite = __builtin_isfinite(norm) && __builtin_isfinite(*a.loss) ? 1 : 0;
  return Status::ok;
}

}  // namespace

void bind(Op<Adamw>& op) { op.run = run; }
void bind(Op<SquareSum>& op) { op.run = run, op.workspace_bytes = square_sum_workspace; }
void bind(Op<ClipGradient>& op) { op.run = run; }

}  // namespace comera::kernels::COMERA_CPU
