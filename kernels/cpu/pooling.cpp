// Pooling with one tile per sequence: the pooled row stays in the L1 cache during the loop over tokens.
#include "kernels/pooling.h"

#include "kernels/cpu/common/simd.h"
#include "kernels/cpu/ops.h"
#include "kernels/host/thread_pool.h"

namespace comera::kernels::COMERA_CPU {
namespace {

const float* in(const void* p) { return static_cast<const float*>(p); }
float* out(void* p) { return static_cast<float*>(p); }

F keep_lanes(F a, All) { return a; }
F keep_lanes(F a, Some lanes) { return keep(first_lanes(lanes.n), a); }

double dot(const float* x, const float* y, std::int64_t count) {
  DoubleSum sum;
  sweep(0, count,
        [&](std::int64_t i, auto lanes) { sum.add(keep_lanes(load(x + i, lanes) * load(y + i, lanes), lanes)); });
  return sum.total();
}

void scale(float* x, std::int64_t count, float factor) {
  sweep(0, count, [&](std::int64_t i, auto lanes) { store(x + i, load(x + i, lanes) * set(factor), lanes); });
}

void pool(const PoolForward& a, std::int64_t b) {
  const std::int64_t rows = a.pooling == Pooling::mean ? a.lengths[b] : 1;
  const float* x = in(a.x) + b * a.length * a.columns;
  float* y = out(a.y) + b * a.columns;
  sweep(0, a.columns, [&](std::int64_t i, auto lanes) {
    F sum = load(x + i, lanes);
    for (std::int64_t t = 1; t < rows; ++t) sum = sum + load(x + t * a.columns + i, lanes);
    store(y + i, sum, lanes);
  });
  if (rows > 1) scale(y, a.columns, 1 / static_cast<float>(rows));
  if (!a.normalise) return;
  const double norm = max(__builtin_sqrt(dot(y, y, a.columns)), smallest_norm);
  out(a.norm)[b] = static_cast<float>(norm);
  scale(y, a.columns, static_cast<float>(1 / norm));
}

void spread(const PoolBackward& a, std::int64_t b) {
  const std::int64_t rows = a.pooling == Pooling::mean ? a.lengths[b] : 1;
  const float *dy = in(a.dy) + b * a.columns, *y = a.normalise ? in(a.y) + b * a.columns : nullptr;
  float* dx = out(a.dx) + b * a.length * a.columns;
  const F along = set(a.normalise ? static_cast<float>(dot(y, dy, a.columns)) : 0);
  const F divisor = set((a.normalise ? in(a.norm)[b] : 1) * static_cast<float>(rows));
  sweep(0, a.columns, [&](std::int64_t i, auto lanes) {
    F d = load(dy + i, lanes);
    if (y) d = fnma(load(y + i, lanes), along, d);
    d = d / divisor;
    for (std::int64_t t = 0; t < a.length; ++t) store(dx + t * a.columns + i, t < rows ? d : zero(), lanes);
  });
}

Status run(const Context& context, const PoolForward& a) {
  if (context.dtype != DType::f32) return Status::unsupported_dtype;
  parallel_for(context, a.sequences, [&](std::int64_t b) { pool(a, b); });
  return Status::ok;
}

Status run(const Context& context, const PoolBackward& a) {
  if (context.dtype != DType::f32) return Status::unsupported_dtype;
  parallel_for(context, a.sequences, [&](std::int64_t b) { spread(a, b); });
  return Status::ok;
}

}  // namespace

void bind(Op<PoolForward>& op) { op.run = run; }
void bind(Op<PoolBackward>& op) { op.run = run; }

}  // namespace comera::kernels::COMERA_CPU
