// Pooling with one tile per sequence: the pooled row stays in the L1 cache during the loop over tokens.
#include "kernels/pooling.h"

#include "kernels/cpu/common/element.h"
#include "kernels/cpu/common/workspace.h"
#include "kernels/cpu/ops.h"
#include "kernels/host/thread_pool.h"

namespace comera::kernels::COMERA_CPU {
namespace {

template <class T>
double dot(const T* x, const T* y, std::int64_t count) {
  DoubleSum sum;
  sweep(0, count,
        [&](std::int64_t i, auto lanes) { sum.add(keep_lanes(load(x + i, lanes) * load(y + i, lanes), lanes)); });
  return sum.total();
}

template <class Y>
void scale(const float* x, std::int64_t count, float factor, Y* y) {
  sweep(0, count, [&](std::int64_t i, auto lanes) { store(y + i, load(x + i, lanes) * set(factor), lanes); });
}

// Vectors before their last rounding: the results themselves if these are float.
std::size_t forward_workspace(const Context&, const PoolForward& a) {
  return __is_same(Element, float) ? 0 : static_cast<std::size_t>(a.sequences * a.columns) * sizeof(float);
}

void pool(const Context& context, const PoolForward& a, std::int64_t b) {
  const std::int64_t rows = a.pooling == Pooling::mean ? a.lengths[b] : 1;
  const Element* x = elements(a.x) + b * a.length * a.columns;
  Element* y = elements(a.y) + b * a.columns;
  float* p = f32(__is_same(Element, float) ? a.y : context.workspace) + b * a.columns;
  sweep(0, a.columns, [&](std::int64_t i, auto lanes) {
    F sum = load(x + i, lanes);
    for (std::int64_t t = 1; t < rows; ++t) sum = sum + load(x + t * a.columns + i, lanes);
    store(p + i, sum, lanes);
  });
  if (rows > 1) scale(p, a.columns, 1 / static_cast<float>(rows), p);
  const double norm = a.normalise ? max(__builtin_sqrt(dot(p, p, a.columns)), smallest_norm) : 1;
  if (a.normalise) f32(a.norm)[b] = static_cast<float>(norm);
  if (a.normalise || !__is_same(Element, float)) scale(p, a.columns, static_cast<float>(1 / norm), y);
}

void spread(const PoolBackward& a, std::int64_t b) {
  const std::int64_t rows = a.pooling == Pooling::mean ? a.lengths[b] : 1;
  const Element *dy = elements(a.dy) + b * a.columns, *y = a.normalise ? elements(a.y) + b * a.columns : nullptr;
  Element* dx = elements(a.dx) + b * a.length * a.columns;
  const F along = set(a.normalise ? static_cast<float>(dot(y, dy, a.columns)) : 0);
  const F divisor = set((a.normalise ? f32(a.norm)[b] : 1) * static_cast<float>(rows));
  sweep(0, a.columns, [&](std::int64_t i, auto lanes) {
    F d = load(dy + i, lanes);
    if (y) d = fnma(load(y + i, lanes), along, d);
    d = d / divisor;
    for (std::int64_t t = 0; t < a.length; ++t) store(dx + t * a.columns + i, t < rows ? d : zero(), lanes);
  });
}

Status run(const Context& context, const PoolForward& a) {
  if (context.dtype != element_type) return Status::unsupported_dtype;
  if (context.workspace_bytes < forward_workspace(context, a)) return Status::workspace_too_small;
  parallel_for(context, a.sequences, [&](std::int64_t b) { pool(context, a, b); });
  return Status::ok;
}

Status run(const Context& context, const PoolBackward& a) {
  if (context.dtype != element_type) return Status::unsupported_dtype;
  parallel_for(context, a.sequences, [&](std::int64_t b) { spread(a, b); });
  return Status::ok;
}

}  // namespace

void bind(Op<PoolForward>& op) { op.run = run, op.workspace_bytes = forward_workspace; }
void bind(Op<PoolBackward>& op) { op.run = run; }

}  // namespace comera::kernels::COMERA_CPU
