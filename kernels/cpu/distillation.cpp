// Losses against a teacher: distances of vectors, divergence of distributions.
#include "kernels/distillation.h"

#include <cmath>

#include "kernels/cpu/common/element.h"
#include "kernels/cpu/common/workspace.h"
#include "kernels/cpu/ops.h"
#include "kernels/host/thread_pool.h"

namespace comera::kernels::COMERA_CPU {
namespace {

constexpr std::int64_t row_tile = 16;

template <class Body>
void for_rows(const Context& context, std::int64_t rows, Body body) {
  parallel_for(context, tiles_of(rows, row_tile), [&](std::int64_t tile) {
    for (std::int64_t row = tile * row_tile; row < min(rows, (tile + 1) * row_tile); ++row) body(row);
  });
}

double dot(const Element* x, const Element* y, std::int64_t count) {
  DoubleSum sum;
  sweep(0, count, [&](std::int64_t i, auto lanes) {
    sum.add_product(keep_lanes(load(x + i, lanes), lanes), load(y + i, lanes));
  });
  return sum.total();
}

double square_distance(const Element* x, const Element* y, std::int64_t count) {
  DoubleSum sum;
  sweep(0, count, [&](std::int64_t i, auto lanes) {
    const F d = keep_lanes(load(x + i, lanes) - load(y + i, lanes), lanes);
    sum.add_product(d, d);
  });
  return sum.total();
}

double length_of(const Element* x, std::int64_t count) { return max(std::sqrt(dot(x, x, count)), shortest_vector); }

template <class Args>
double share_of(const Args& a, std::int64_t k) {
  const std::int64_t count = a.lengths ? a.lengths[k / a.length] : a.length;
  return k % a.length < count ? 1 / static_cast<double>(count) : 0;
}

Status run(const Context& context, const VectorDistance& a) {
  if (context.dtype != element_type) return Status::unsupported_dtype;
  const std::int64_t rows = a.sequences * a.length;
  float* distances = f32(a.distances);
  for_rows(context, rows, [&](std::int64_t k) {
    const Element *x = elements(a.x) + k * a.columns, *target = elements(a.target) + k * a.columns;
    double d = 0;
    if (share_of(a, k) > 0)
      d = a.distance == Distance::cosine
              ? 1 - dot(x, target, a.columns) / (length_of(x, a.columns) * length_of(target, a.columns))
              : square_distance(x, target, a.columns) / static_cast<double>(a.columns);
    distances[k] = static_cast<float>(d);
  });
  double sum = 0;
  for (std::int64_t k = 0; k < rows; ++k) sum += distances[k] * share_of(a, k);
  *static_cast<double*>(a.loss) += sum * a.weight * *a.scale;
  return Status::ok;
}

// dx = or += on * x + of * target.
void combine(std::int64_t columns, bool accumulate, F on, const Element* x, F of, const Element* target, Element* dx) {
  sweep(0, columns, [&](std::int64_t i, auto lanes) {
    const F d = fma(on, load(x + i, lanes), of * load(target + i, lanes));
    store(dx + i, accumulate ? load(dx + i, lanes) + d : d, lanes);
  });
}

Status run(const Context& context, const VectorDistanceBackward& a) {
  if (context.dtype != element_type) return Status::unsupported_dtype;
  for_rows(context, a.sequences * a.length, [&](std::int64_t k) {
    const Element *x = elements(a.x) + k * a.columns, *target = elements(a.target) + k * a.columns;
    Element* dx = elements(a.dx) + k * a.columns;
    const double share = share_of(a, k), factor = share * a.weight * *a.scale;
    if (share == 0) {
      if (!a.accumulate) sweep(0, a.columns, [&](std::int64_t i, auto lanes) { store(dx + i, zero(), lanes); });
    } else if (a.distance == Distance::squared) {
      const F twice = set(static_cast<float>(2 * factor / static_cast<double>(a.columns)));
      sweep(0, a.columns, [&](std::int64_t i, auto lanes) {
        const F d = twice * (load(x + i, lanes) - load(target + i, lanes));
        store(dx + i, a.accumulate ? load(dx + i, lanes) + d : d, lanes);
      });
    } else {
      const double length = length_of(x, a.columns), other = length_of(target, a.columns);
      const double along = dot(x, target, a.columns) / (length * other);
      combine(a.columns, a.accumulate, set(static_cast<float>(factor * along / (length * length))), x,
              set(static_cast<float>(-factor / (length * other))), target, dx);
    }
  });
  return Status::ok;
}

void fold_row(const DivergenceChunk& a, std::int64_t row) {
  const Element *z = elements(a.logits) + row * a.ld, *y = elements(a.teacher) + row * a.ld_teacher;
  float* s = f32(a.state) + row * divergence_state;
  const double t = a.temperature;
  const F inverse = set(static_cast<float>(1 / t));
  const auto own_maximum = static_cast<float>(largest_of(z, a.columns) / t),
             teacher_maximum = static_cast<float>(largest_of(y, a.columns) / t);
  const float m = a.start ? own_maximum : max(s[0], own_maximum),
              n = a.start ? teacher_maximum : max(s[2], teacher_maximum);
  DoubleSum own, teacher, difference;
  sweep(0, a.columns, [&](std::int64_t i, auto lanes) {
    const F u = load(z + i, lanes) * inverse, v = load(y + i, lanes) * inverse;
    const F q = keep_lanes(exp(v - set(n)), lanes);
    own.add(keep_lanes(exp(u - set(m)), lanes));
    teacher.add(q);
    difference.add_product(q, v - u);
  });
  const double keep_own = a.start ? 0 : std::exp(static_cast<double>(s[0]) - m),
               keep_teacher = a.start ? 0 : std::exp(static_cast<double>(s[2]) - n);
  s[1] = static_cast<float>((a.start ? 0 : s[1] * keep_own) + own.total());
  s[3] = static_cast<float>((a.start ? 0 : s[3] * keep_teacher) + teacher.total());
  s[4] = static_cast<float>((a.start ? 0 : s[4] * keep_teacher) + difference.total());
  s[0] = m, s[2] = n;
}

Status run(const Context& context, const DivergenceChunk& a) {
  if (context.dtype != element_type) return Status::unsupported_dtype;
  for_rows(context, a.rows, [&](std::int64_t row) { fold_row(a, row); });
  return Status::ok;
}

Status run(const Context& context, const DivergenceLoss& a) {
  if (context.dtype != DType::f32) return Status::unsupported_dtype;
  double sum = 0;
  for (std::int64_t i = 0; i < a.rows; ++i) {
    if (a.targets && a.targets[i] < 0) continue;
    const float* s = f32(a.state) + i * divergence_state;
    const double own = s[0] + std::log(static_cast<double>(s[1])), teacher = s[2] + std::log(static_cast<double>(s[3]));
    sum += static_cast<double>(s[4]) / s[3] - teacher + own;
  }
  *static_cast<double*>(a.loss) += sum * a.weight * a.temperature * a.temperature * *a.scale;
  return Status::ok;
}

Status run(const Context& context, const DivergenceBackward& a) {
  if (context.dtype != element_type) return Status::unsupported_dtype;
  const double scale = a.weight * a.temperature * *a.scale;
  const F inverse = set(static_cast<float>(1 / a.temperature));
  for_rows(context, a.rows, [&](std::int64_t row) {
    const Element *z = elements(a.logits) + row * a.ld, *y = elements(a.teacher) + row * a.ld_teacher;
    const float* s = f32(a.state) + row * divergence_state;
    Element* d = elements(a.d_logits) + row * a.columns;
    const bool counts = !a.targets || a.targets[row] >= 0;
    const F m = set(s[0]), n = set(s[2]), p = set(static_cast<float>(scale / s[1])),
            q = set(static_cast<float>(scale / s[3]));
    sweep(0, a.columns, [&](std::int64_t i, auto lanes) {
      const F own = exp(load(z + i, lanes) * inverse - m) * p, teacher = exp(load(y + i, lanes) * inverse - n) * q;
      store(d + i, counts ? own - teacher : zero(), lanes);
    });
  });
  return Status::ok;
}

}  // namespace

void bind(Op<VectorDistance>& op) { op.run = run; }
void bind(Op<VectorDistanceBackward>& op) { op.run = run; }
void bind(Op<DivergenceChunk>& op) { op.run = run; }
void bind(Op<DivergenceLoss>& op) { op.run = run; }
void bind(Op<DivergenceBackward>& op) { op.run = run; }

}  // namespace comera::kernels::COMERA_CPU
