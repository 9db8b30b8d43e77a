// The vector of VeLoRA and the gradients along it.
#include "kernels/direction.h"

#include "kernels/cpu/common/element.h"
#include "kernels/cpu/common/workspace.h"
#include "kernels/cpu/ops.h"
#include "kernels/host/thread_pool.h"

namespace comera::kernels::COMERA_CPU {
namespace {

constexpr std::int64_t tile_rows = 4096;
constexpr std::int64_t tile = 16384;  // elements of a tile, in whole rows

std::size_t average_workspace(const Context&, const DirectionAverage& a) {
  return static_cast<std::size_t>(tiles_of(a.rows, tile_rows) * a.size) * sizeof(double);
}

bool is_set(const DirectionAverage& a) {
  for (std::int64_t j = 0; j < a.size; ++j)
    if (f32(a.v)[j] != 0) return true;
  return false;
}

// The sums of the tiles' rows, in double, one tile after another.
void add_rows(const Context& context, const DirectionAverage& a, double* partial) {
  parallel_for(context, tiles_of(a.rows, tile_rows), [&](std::int64_t index) {
    double* sums = partial + index * a.size;
    for (std::int64_t j = 0; j < a.size; ++j) sums[j] = 0;
    for (std::int64_t row = index * tile_rows; row < min(a.rows, (index + 1) * tile_rows); ++row)
      for (std::int64_t j = 0; j < a.size; ++j) sums[j] += static_cast<double>(number(elements(a.x)[row * a.size + j]));
  });
}

Status run(const Context& context, const DirectionAverage& a) {
  if (context.dtype != element_type) return Status::unsupported_dtype;
  if (context.workspace_bytes < average_workspace(context, a)) return Status::workspace_too_small;
  if (a.rows == 0 || is_set(a)) return Status::ok;
  auto* mean = static_cast<double*>(context.workspace);
  add_rows(context, a, mean);
  double squares = 0;
  for (std::int64_t j = 0; j < a.size; ++j) {
    for (std::int64_t index = 1; index < tiles_of(a.rows, tile_rows); ++index) mean[j] += mean[index * a.size + j];
    mean[j] /= static_cast<double>(a.rows);
    squares += mean[j] * mean[j];
  }
  if (!__builtin_isfinite(squares) || !(squares > 0)) return Status::ok;
  for (std::int64_t j = 0; j < a.size; ++j) f32(a.v)[j] = static_cast<float>(mean[j] / __builtin_sqrt(squares));
  return Status::ok;
}

Status run(const Context& context, const DirectionLift& a) {
  if (context.dtype != DType::f32) return Status::unsupported_dtype;
  const std::int64_t rows = a.groups * a.size, step = max<std::int64_t>(1, tile / max<std::int64_t>(1, a.out));
  parallel_for(context, tiles_of(rows, step), [&](std::int64_t index) {
    for (std::int64_t i = index * step; i < min(rows, (index + 1) * step); ++i) {
      const F factor = set(static_cast<float>(a.scale) * f32(a.v)[i % a.size]);
      const float* t = f32(a.t) + i / a.size * a.out;
      float* result = f32(a.result) + i * a.ld_result;
      sweep(0, a.out, [&](std::int64_t n, auto lanes) {
        store(result + n, fma(factor, load(t + n, lanes), load(result + n, lanes)), lanes);
      });
    }
  });
  return Status::ok;
}

}  // namespace

void bind(Op<DirectionAverage>& op) { op.run = run, op.workspace_bytes = average_workspace; }
void bind(Op<DirectionLift>& op) { op.run = run; }

}  // namespace comera::kernels::COMERA_CPU
