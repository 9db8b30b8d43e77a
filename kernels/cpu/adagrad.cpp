// Adagrad and SGD.
#include "kernels/adagrad.h"

#include "kernels/cpu/common/many_tensors.h"
#include "kernels/cpu/common/simd.h"
#include "kernels/cpu/ops.h"

namespace comera::kernels::COMERA_CPU {
namespace {

// StepFactors for vectors.
struct VectorStep {
  F scale, decay, rate;

  explicit VectorStep(const StepFactors& f) : scale(set(f.scale)), decay(set(f.decay)), rate(set(f.rate)) {}
  F stepped(F value, F direction) const { return fnma(rate, fma(decay, value, direction), value); }
};

void update(const AdagradTensor& t, std::int64_t begin, std::int64_t end, double gradient_scale, double epsilon) {
  const VectorStep step(StepFactors(*t.scalars, gradient_scale));
  const F least = set(static_cast<float>(epsilon));
  float *w = static_cast<float*>(t.value), *s = static_cast<float*>(t.square_sum);
  const float* gradient = static_cast<const float*>(t.gradient);
  sweep(begin, end, [&](std::int64_t i, auto lanes) {
    const F g = load(gradient + i, lanes) * step.scale, sum = fma(g, g, load(s + i, lanes));
    store(s + i, sum, lanes);
    store(w + i, step.stepped(load(w + i, lanes), g / (sqrt(sum) + least)), lanes);
  });
}

Status run(const Context& context, const Adagrad& a) {
  if (context.dtype != DType::f32) return Status::unsupported_dtype;
  if (a.scalars->finite == 0) return Status::ok;
  for_many(context, a.tensors, a.count,
           [&](const AdagradTensor& t, std::int64_t begin, std::int64_t end, std::int64_t) {
             update(t, begin, end, a.scalars->gradient_scale, a.epsilon);
           });
  return Status::ok;
}

Status run(const Context& context, const Sgd& a) {
  if (context.dtype != DType::f32) return Status::unsupported_dtype;
  if (a.scalars->finite == 0) return Status::ok;
  for_many(context, a.tensors, a.count, [&](const SgdTensor& t, std::int64_t begin, std::int64_t end, std::int64_t) {
    const VectorStep step(StepFactors(*t.scalars, a.scalars->gradient_scale));
    float* w = static_cast<float*>(t.value);
    const float* gradient = static_cast<const float*>(t.gradient);
    sweep(begin, end, [&](std::int64_t i, auto lanes) {
      store(w + i, step.stepped(load(w + i, lanes), load(gradient + i, lanes) * step.scale), lanes);
    });
  });
  return Status::ok;
}

}  // namespace

void bind(Op<Adagrad>& op) { op.run = run; }
void bind(Op<Sgd>& op) { op.run = run; }

}  // namespace comera::kernels::COMERA_CPU
