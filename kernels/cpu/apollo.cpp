// The update of APOLLO-Mini.
#include "kernels/apollo.h"

#include "kernels/cpu/common/simd.h"
#include "kernels/cpu/ops.h"
#include "kernels/host/thread_pool.h"

namespace comera::kernels::COMERA_CPU {
namespace {

constexpr std::int64_t tile = 32768, rows_of_tile = 16, columns_of_tile = 4 * F::width;

std::size_t project_workspace(const Context&, const ApolloProject& a) {
  return static_cast<std::size_t>(min(a.rows, a.columns)) * sizeof(float);
}

// P^T G for a strip of columns.
void project_strip(const ApolloProject& a, const float* p, std::int64_t begin, std::int64_t end) {
  const float* g = static_cast<const float*>(a.gradient);
  sweep(begin, end, [&](std::int64_t column, auto lanes) {
    F sum = zero();
    for (std::int64_t row = 0; row < a.rows; ++row)
      sum = fma(set(p[row]), load(g + row * a.columns + column, lanes), sum);
    store(static_cast<float*>(a.result) + column, sum, lanes);
  });
}

float project_row(const float* row, const float* p, std::int64_t columns) {
  F total = zero();
  sweep(0, columns, [&](std::int64_t i, auto lanes) { total = fma(load(row + i, lanes), load(p + i, lanes), total); });
  return sum(total);
}

Status run(const Context& context, const ApolloProject& a) {
  if (context.dtype != DType::f32) return Status::unsupported_dtype;
  if (context.workspace_bytes < project_workspace(context, a)) return Status::workspace_too_small;
  auto* p = static_cast<float*>(context.workspace);
  const SketchRule rule = rule_of(a);
  for (std::int64_t i = 0; i < min(a.rows, a.columns); ++i) p[i] = entry_of(rule, i);
  if (a.projects_rows()) {
    parallel_for(context, tiles_of(a.columns, columns_of_tile), [&](std::int64_t strip) {
      project_strip(a, p, strip * columns_of_tile, min(a.columns, (strip + 1) * columns_of_tile));
    });
  } else {
    parallel_for(context, tiles_of(a.rows, rows_of_tile), [&](std::int64_t index) {
      for (std::int64_t row = index * rows_of_tile; row < min(a.rows, (index + 1) * rows_of_tile); ++row)
        static_cast<float*>(a.result)[row] =
            project_row(static_cast<const float*>(a.gradient) + row * a.columns, p, a.columns);
    });
  }
  return Status::ok;
}

Status run(const Context&, const ApolloFactor& a) {
  write_factor(a);
  return Status::ok;
}

Status run(const Context& context, const AddByFactor& a) {
  if (context.dtype != DType::f32) return Status::unsupported_dtype;
  const F factor = set(static_cast<float>(*a.factor));
  const float* x = static_cast<const float*>(a.x);
  float* y = static_cast<float*>(a.y);
  parallel_for(context, tiles_of(a.count, tile), [&](std::int64_t index) {
    sweep(index * tile, min(a.count, (index + 1) * tile), [&](std::int64_t i, auto lanes) {
      store(y + i, fma(factor, load(x + i, lanes), load(y + i, lanes)), lanes);
    });
  });
  return Status::ok;
}

}  // namespace

void bind(Op<ApolloProject>& op) { op.run = run, op.workspace_bytes = project_workspace; }
void bind(Op<ApolloFactor>& op) { op.run = run; }
void bind(Op<AddByFactor>& op) { op.run = run; }

}  // namespace comera::kernels::COMERA_CPU
