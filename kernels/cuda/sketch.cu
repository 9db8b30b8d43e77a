// Random projections: four neighbouring columns of a row per thread; sums of a count sketch.
#include "kernels/cuda/common/element.h"
#include "kernels/cuda/common/runtime.h"
#include "kernels/cuda/ops.h"
#include "kernels/sketch.h"

namespace comera::kernels::cuda {
namespace {

constexpr int threads = 256;

// Bound by arithmetic: some 60 integer instructions for four normal entries, some hundreds for four orthonormal ones.
template <class T>
__global__ void __launch_bounds__(threads) draw(const DrawSketch a) {
  begin_kernel();
  const SketchRule rule(a);
  const std::int64_t n = a.sketch.inputs, r = a.sketch.rank, blocks = (r + 3) / 4;
  T* const p = static_cast<T*>(a.p);
  for (std::int64_t i = flat_index(); i < n * blocks; i += flat_stride()) {
    // Neighbouring threads write neighbouring addresses in either order.
    const std::int64_t row = a.transposed ? i % n : i / blocks, block = a.transposed ? i / n : i % blocks;
    const bool orthonormal = a.sketch.kind == SketchKind::orthonormal;
    float four[4];
    if (!orthonormal) rule.four(row, block, four);
    const float sign = orthonormal ? rule.sign(row) : 0;
    for (int j = 0; j < 4; ++j) {
      const std::int64_t column = 4 * block + j;
      if (column >= r) break;
      const float entry = orthonormal ? rule.entry(row, rule.frequency(column), sign) : four[j];
      p[a.transposed ? column * n + row : row * r + column] = to_element<T>(entry);
    }
  }
}

Status run(const Context& context, const DrawSketch& a) {
  const std::int64_t blocks = a.sketch.inputs * ((a.sketch.rank + 3) / 4);
  return with_element(context, [&]<class T>(T) {
    return launch(context, {grid_for(blocks, threads), threads}, draw<T>, a);
  });
}

// A thread has one column of a few tokens, so that its random numbers are drawn once for them.
constexpr int tokens_at_once = 16;

template <class T>
__global__ void __launch_bounds__(threads) sum_columns(const SketchColumns a) {
  begin_kernel();
  const SketchRule rule(a.sketch, 1, *a.scalars);
  const std::int64_t n = a.sketch.inputs, r = a.sketch.rank;
  const std::int64_t groups = (a.tokens + tokens_at_once - 1) / tokens_at_once;
  for (std::int64_t i = flat_index(); i < r * groups; i += flat_stride()) {
    const std::int64_t column = i % r, first = i / r * tokens_at_once;
    const auto* x = static_cast<const T*>(a.x) + first * n;
    float sums[tokens_at_once] = {};
    for (std::int64_t block = 0; block * r < n; ++block) {
      const std::int64_t row = block * r + (column - rule.shift(block) + r) % r;
      if (row >= n) continue;
      const float sign = rule.sign(row);
      for (int t = 0; t < tokens_at_once; ++t)
        if (first + t < a.tokens) sums[t] += sign * to_float(x[t * n + row]);
    }
    for (int t = 0; t < tokens_at_once; ++t)
      if (first + t < a.tokens) static_cast<T*>(a.z)[(first + t) * r + column] = to_element<T>(sums[t]);
  }
}

__global__ void __launch_bounds__(threads) add_rows(const SketchRows a) {
  begin_kernel();
  const SketchRule rule(a.sketch, a.scale, *a.scalars);
  for (std::int64_t i = flat_index(); i < a.sketch.inputs * a.out; i += flat_stride()) {
    const std::int64_t row = i / a.out, j = i % a.out;
    const float* t = static_cast<const float*>(a.t) + rule.column(row) * a.out;
    float* to = static_cast<float*>(a.result) + i;
    *to = fmaf(rule.sign(row), t[j], *to);
  }
}

Status run(const Context& context, const SketchColumns& a) {
  if (a.sketch.kind != SketchKind::count) return Status::unsupported_shape;
  const std::int64_t groups = (a.tokens + tokens_at_once - 1) / tokens_at_once;
  return with_element(context, [&]<class T>(T) {
    return launch(context, {grid_for(a.sketch.rank * groups, threads), threads}, sum_columns<T>, a);
  });
}

Status run(const Context& context, const SketchRows& a) {
  if (a.sketch.kind != SketchKind::count) return Status::unsupported_shape;
  return launch(context, {grid_for(a.sketch.inputs * a.out, threads), threads}, add_rows, a);
}

}  // namespace

void bind(Op<DrawSketch>& op) { op.run = run; }
void bind(Op<SketchColumns>& op) { op.run = run; }
void bind(Op<SketchRows>& op) { op.run = run; }

}  // namespace comera::kernels::cuda
