// Distillation losses. Bound by memory traffic: the rows of student and teacher are read once from memory (a second
// pass reads them from the cache), and gradients are written once.
#include "kernels/cuda/common/row_sums.h"
#include "kernels/cuda/common/rows.h"
#include "kernels/cuda/ops.h"
#include "kernels/distillation.h"

namespace comera::kernels::cuda {
namespace {

template <class Args>
COMERA_DEVICE double share_of(const Args& a, std::int64_t k) {
  const std::int64_t count = a.lengths ? a.lengths[k / a.length] : a.length;
  return k % a.length < count ? 1 / static_cast<double>(count) : 0;
}

// Products of two vectors: x . x, target . target, x . target, |x - target|^2. Every thread of the row gets them.
struct Products {
  float x = 0, target = 0, both = 0, difference = 0;
};

template <class T>
__device__ Products products_of(Distance distance, const T* x, const T* target, std::int64_t columns, bool aligned) {
  Products sum;
  for (std::int64_t at = first_eight(); at < columns; at += eight_stride()) {
    const Eight u = get<Eight>(x, at, columns, aligned), v = get<Eight>(target, at, columns, aligned);
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float d = u.v[j] - v.v[j];
      sum.x = fmaf(u.v[j], u.v[j], sum.x);
      sum.target = fmaf(v.v[j], v.v[j], sum.target);
      sum.both = fmaf(u.v[j], v.v[j], sum.both);
      sum.difference = fmaf(d, d, sum.difference);
    }
  }
  if (distance == Distance::squared) return {0, 0, 0, sum_of_row(sum.difference)};
  return {sum_of_row(sum.x), sum_of_row(sum.target), sum_of_row(sum.both), 0};
}

COMERA_DEVICE double length_of(float square) {
  const double length = sqrt(static_cast<double>(square));
  return length < shortest_vector ? shortest_vector : length;
}

template <class T>
__global__ void __launch_bounds__(row_threads) measure(const VectorDistance __grid_constant__ a, bool aligned) {
  begin_kernel();
  for (std::int64_t k = first_row(); k < a.sequences * a.length; k += row_stride()) {
    double d = 0;
    if (share_of(a, k) > 0) {
      const Products p = products_of(a.distance, static_cast<const T*>(a.x) + k * a.columns,
                                     static_cast<const T*>(a.target) + k * a.columns, a.columns, aligned);
      d = a.distance == Distance::cosine ? 1 - p.both / (length_of(p.x) * length_of(p.target))
                                         : p.difference / static_cast<double>(a.columns);
    }
    if (threadIdx.x == 0) static_cast<float*>(a.distances)[k] = static_cast<float>(d);
  }
}

struct DistanceOfRow {
  VectorDistance a;

  COMERA_DEVICE void add(std::int64_t row, Sums& sums) const {
    sums.loss += static_cast<const float*>(a.distances)[row] * share_of(a, row);
  }
  COMERA_DEVICE void finish(const Sums& sums) const {
    *static_cast<double*>(a.loss) += sums.loss * a.weight * *a.scale;
  }
};

std::size_t distance_workspace(const Context&, const VectorDistance& a) {
  return row_sums_workspace(a.sequences * a.length);
}

Status run(const Context& context, const VectorDistance& a) {
  return with_element(context, [&]<class T>(T) {
    const std::int64_t rows = a.sequences * a.length;
    const bool aligned = all_aligned<T>(a.columns, a.x, a.target);
    const Status status = launch(context, row_launch(rows, a.columns), measure<T>, a, aligned);
    return status == Status::ok ? sum_rows(context, rows, DistanceOfRow{a}) : status;
  });
}

// dx = on * x + of * target.
struct Combination {
  float on = 0, of = 0;
};

template <class T>
__device__ Combination gradient_of(const VectorDistanceBackward& a, std::int64_t k, const T* x, const T* target,
                                   bool aligned) {
  const double share = share_of(a, k), factor = share * a.weight * *a.scale;
  if (share == 0) return {};
  if (a.distance == Distance::squared) {
    const auto twice = static_cast<float>(2 * factor / static_cast<double>(a.columns));
    return {twice, -twice};
  }
  const Products p = products_of(a.distance, x, target, a.columns, aligned);
  const double length = length_of(p.x), other = length_of(p.target), along = p.both / (length * other);
  return {static_cast<float>(factor * along / (length * length)), static_cast<float>(-factor / (length * other))};
}

template <class T>
__global__ void __launch_bounds__(row_threads)
    measure_backward(const VectorDistanceBackward __grid_constant__ a, bool aligned) {
  begin_kernel();
  for (std::int64_t k = first_row(); k < a.sequences * a.length; k += row_stride()) {
    const T *x = static_cast<const T*>(a.x) + k * a.columns, *target = static_cast<const T*>(a.target) + k * a.columns;
    T* dx = static_cast<T*>(a.dx) + k * a.columns;
    const Combination c = gradient_of(a, k, x, target, aligned);
    const bool none = c.on == 0 && c.of == 0, squared = a.distance == Distance::squared;
    if (none && a.accumulate) continue;
    for (std::int64_t at = first_eight(); at < a.columns; at += eight_stride()) {
      Eight d{};
      if (a.accumulate) d = get<Eight>(dx, at, a.columns, aligned);
      if (!none) {
        const Eight u = get<Eight>(x, at, a.columns, aligned), v = get<Eight>(target, at, a.columns, aligned);
#pragma unroll
        for (int j = 0; j < 8; ++j) d.v[j] += squared ? c.on * (u.v[j] - v.v[j]) : fmaf(c.on, u.v[j], c.of * v.v[j]);
      }
      put(dx, at, a.columns, aligned, d);
    }
  }
}

Status run(const Context& context, const VectorDistanceBackward& a) {
  return with_element(context, [&]<class T>(T) {
    const bool aligned = all_aligned<T>(a.columns, a.x, a.target, a.dx);
    return launch(context, row_launch(a.sequences * a.length, a.columns), measure_backward<T>, a, aligned);
  });
}

struct Largest {
  float student, teacher;
};

// The largest logits of a chunk, before the temperature. Every thread of the row gets them.
template <class T>
__device__ Largest largest_of(const T* z, const T* y, std::int64_t columns, bool aligned) {
  Largest own{-INFINITY, -INFINITY};
  for (std::int64_t at = first_eight(); at < columns; at += eight_stride()) {
    const Eight u = get<Eight>(z, at, columns, aligned), v = get<Eight>(y, at, columns, aligned);
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      if (at + j >= columns) continue;
      own.student = Larger{}(own.student, u.v[j]);
      own.teacher = Larger{}(own.teacher, v.v[j]);
    }
  }
  return {reduce_row(own.student, -INFINITY, Larger{}), reduce_row(own.teacher, -INFINITY, Larger{})};
}

struct Exponentials {
  float student = 0, teacher = 0, difference = 0;
};

template <class T>
__device__ Exponentials exponentials_of(const T* z, const T* y, std::int64_t columns, bool aligned, float inverse,
                                        float m, float n) {
  Exponentials sum;
  for (std::int64_t at = first_eight(); at < columns; at += eight_stride()) {
    const Eight u = get<Eight>(z, at, columns, aligned), v = get<Eight>(y, at, columns, aligned);
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      if (at + j >= columns) continue;
      const float own = u.v[j] * inverse, other = v.v[j] * inverse, q = expf(other - n);
      sum.student += expf(own - m);
      sum.teacher += q;
      sum.difference = fmaf(q, other - own, sum.difference);
    }
  }
  return {sum_of_row(sum.student), sum_of_row(sum.teacher), sum_of_row(sum.difference)};
}

template <class T>
__global__ void __launch_bounds__(row_threads) fold_chunk(const DivergenceChunk __grid_constant__ a, bool aligned) {
  begin_kernel();
  const auto inverse = static_cast<float>(1 / a.temperature);
  for (std::int64_t row = first_row(); row < a.rows; row += row_stride()) {
    const T *z = static_cast<const T*>(a.logits) + row * a.ld,
            *y = static_cast<const T*>(a.teacher) + row * a.ld_teacher;
    float* s = static_cast<float*>(a.state) + row * divergence_state;
    float before[divergence_state] = {-INFINITY, 0, -INFINITY, 0, 0};
#pragma unroll
    for (int i = 0; i < divergence_state; ++i)
      if (!a.start) before[i] = s[i];
    const Largest largest = largest_of(z, y, a.columns, aligned);
    const float m = Larger{}(before[0], static_cast<float>(largest.student / a.temperature));
    const float n = Larger{}(before[2], static_cast<float>(largest.teacher / a.temperature));
    const Exponentials sum = exponentials_of(z, y, a.columns, aligned, inverse, m, n);
    __syncwarp();  // all threads have read the values that the first one overwrites
    if (threadIdx.x != 0) continue;
    const float keep = a.start ? 0.0f : expf(before[0] - m), keep_teacher = a.start ? 0.0f : expf(before[2] - n);
    s[0] = m;
    s[1] = fmaf(before[1], keep, sum.student);
    s[2] = n;
    s[3] = fmaf(before[3], keep_teacher, sum.teacher);
    s[4] = fmaf(before[4], keep_teacher, sum.difference);
  }
}

Status run(const Context& context, const DivergenceChunk& a) {
  if (a.columns < 1) return Status::unsupported_shape;
  return with_element(context, [&]<class T>(T) {
    const bool aligned = all_aligned<T>(a.ld, a.logits) && all_aligned<T>(a.ld_teacher, a.teacher);
    return launch(context, row_launch(a.rows, a.columns), fold_chunk<T>, a, aligned);
  });
}

struct DivergenceOfRow {
  DivergenceLoss a;

  COMERA_DEVICE void add(std::int64_t row, Sums& sums) const {
    if (a.targets && a.targets[row] < 0) return;
    const float* s = static_cast<const float*>(a.state) + row * divergence_state;
    const double own = s[0] + log(static_cast<double>(s[1])), teacher = s[2] + log(static_cast<double>(s[3]));
    sums.loss += static_cast<double>(s[4]) / s[3] - teacher + own;
  }
  COMERA_DEVICE void finish(const Sums& sums) const {
    *static_cast<double*>(a.loss) += sums.loss * a.weight * a.temperature * a.temperature * *a.scale;
  }
};

std::size_t divergence_workspace(const Context&, const DivergenceLoss& a) { return row_sums_workspace(a.rows); }

Status run(const Context& context, const DivergenceLoss& a) {
  return with_element(context, [&](auto) { return sum_rows(context, a.rows, DivergenceOfRow{a}); });
}

template <class T>
__global__ void __launch_bounds__(row_threads)
    divergence_gradient(const DivergenceBackward __grid_constant__ a, bool aligned) {
  begin_kernel();
  const auto scale = static_cast<float>(a.weight * a.temperature * *a.scale),
             inverse = static_cast<float>(1 / a.temperature);
  for (std::int64_t row = first_row(); row < a.rows; row += row_stride()) {
    const T *z = static_cast<const T*>(a.logits) + row * a.ld,
            *y = static_cast<const T*>(a.teacher) + row * a.ld_teacher;
    const float* s = static_cast<const float*>(a.state) + row * divergence_state;
    const bool counts = !a.targets || a.targets[row] >= 0;
    const float m = s[0], n = s[2], p = scale / s[1], q = scale / s[3];
    for (std::int64_t at = first_eight(); at < a.columns; at += eight_stride()) {
      Eight d{};
      if (counts) {
        const Eight u = get<Eight>(z, at, a.columns, aligned), v = get<Eight>(y, at, a.columns, aligned);
#pragma unroll
        for (int j = 0; j < 8; ++j) d.v[j] = expf(u.v[j] * inverse - m) * p - expf(v.v[j] * inverse - n) * q;
      }
      put(static_cast<T*>(a.d_logits) + row * a.columns, at, a.columns, aligned, d);
    }
  }
}

Status run(const Context& context, const DivergenceBackward& a) {
  return with_element(context, [&]<class T>(T) {
    const bool aligned = all_aligned<T>(a.ld, a.logits) && all_aligned<T>(a.ld_teacher, a.teacher) &&
                         all_aligned<T>(a.columns, a.d_logits);
    return launch(context, row_launch(a.rows, a.columns), divergence_gradient<T>, a, aligned);
  });
}

}  // namespace

void bind(Op<VectorDistance>& op) { op.run = run, op.workspace_bytes = distance_workspace; }
void bind(Op<VectorDistanceBackward>& op) { op.run = run; }
void bind(Op<DivergenceChunk>& op) { op.run = run; }
void bind(Op<DivergenceLoss>& op) { op.run = run, op.workspace_bytes = divergence_workspace; }
void bind(Op<DivergenceBackward>& op) { op.run = run; }

}  // namespace comera::kernels::cuda
