// Random projections, by groups of rows.
#include "kernels/sketch.h"

#include "kernels/cpu/common/isa.h"
#include "kernels/cpu/common/workspace.h"
#include "kernels/cpu/ops.h"
#include "kernels/host/thread_pool.h"

namespace comera::kernels::COMERA_CPU {
namespace {

constexpr std::int64_t rows_of_tile = 16;

std::size_t workspace(const Context&, const DrawSketch& a) {
  return a.sketch.kind == SketchKind::orthonormal ? static_cast<std::size_t>(a.sketch.rank) * sizeof(std::uint32_t) : 0;
}

Status run(const Context& context, const DrawSketch& a) {
  if (context.dtype != DType::f32) return Status::unsupported_dtype;
  const SketchRule rule(a);
  const std::int64_t n = a.sketch.inputs, r = a.sketch.rank, down = a.transposed ? 1 : r, across = a.transposed ? n : 1;
  const bool orthonormal = a.sketch.kind == SketchKind::orthonormal;
  auto* frequencies = static_cast<std::uint32_t*>(context.workspace);
  for (std::int64_t column = 0; orthonormal && column < r; ++column) frequencies[column] = rule.frequency(column);
  parallel_for(context, tiles_of(n, rows_of_tile), [&](std::int64_t tile) {
    for (std::int64_t row = tile * rows_of_tile; row < min(n, (tile + 1) * rows_of_tile); ++row) {
      float* to = static_cast<float*>(a.p) + row * down;
      const float sign = orthonormal ? rule.sign(row) : 0;
      for (std::int64_t column = 0; orthonormal && column < r; ++column)
        to[column * across] = rule.entry(row, frequencies[column], sign);
      for (std::int64_t block = 0; !orthonormal && block < tiles_of(r, std::int64_t{4}); ++block) {
        float four[4];
        rule.four(row, block, four);
        for (std::int64_t i = 4 * block; i < min(r, 4 * block + 4); ++i) to[i * across] = four[i % 4];
      }
    }
  });
  return Status::ok;
}

}  // namespace

void bind(Op<DrawSketch>& op) { op.run = run, op.workspace_bytes = workspace; }

}  // namespace comera::kernels::COMERA_CPU
