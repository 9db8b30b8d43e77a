// Random projections, by groups of rows.
#include "kernels/sketch.h"

#include "kernels/cpu/common/element.h"
#include "kernels/cpu/ops.h"
#include "kernels/host/thread_pool.h"

namespace comera::kernels::COMERA_CPU {
namespace {

constexpr std::int64_t rows_of_tile = 16, columns_at_once = 64;

std::size_t workspace(const Context&, const DrawSketch& a) {
  return a.sketch.kind == SketchKind::orthonormal ? static_cast<std::size_t>(a.sketch.rank) * sizeof(std::uint32_t) : 0;
}

Status run(const Context& context, const DrawSketch& a) {
  if (context.dtype != element_type) return Status::unsupported_dtype;
  const SketchRule rule(a);
  const std::int64_t n = a.sketch.inputs, r = a.sketch.rank, down = a.transposed ? 1 : r, across = a.transposed ? n : 1;
  const bool orthonormal = a.sketch.kind == SketchKind::orthonormal;
  auto* frequencies = static_cast<std::uint32_t*>(context.workspace);
  for (std::int64_t column = 0; orthonormal && column < r; ++column) frequencies[column] = rule.frequency(column);
  parallel_for(context, tiles_of(n, rows_of_tile), [&](std::int64_t tile) {
    const std::int64_t begin = tile * rows_of_tile, end = min(n, begin + rows_of_tile);
    float signs[rows_of_tile] = {};
    for (std::int64_t row = begin; orthonormal && row < end; ++row) signs[row - begin] = rule.sign(row);
    // P^T is written in pieces of a few lines of the cache.
    for (std::int64_t first = 0; first < r; first += columns_at_once)
      for (std::int64_t row = begin; row < end; ++row) {
        const std::int64_t count = min(r - first, columns_at_once);
        alignas(64) float drawn[columns_at_once];
        for (std::int64_t i = 0; !orthonormal && i < count; i += 4) rule.four(row, (first + i) / 4, drawn + i);
        for (std::int64_t i = 0; orthonormal && i < count; ++i)
          drawn[i] = rule.entry(row, frequencies[first + i], signs[row - begin]);
        Element* to = elements(a.p) + row * down + first * across;
        for (std::int64_t i = 0; i < count; ++i) set_number(to[i * across], drawn[i]);
      }
  });
  return Status::ok;
}

}  // namespace

void bind(Op<DrawSketch>& op) { op.run = run, op.workspace_bytes = workspace; }

}  // namespace comera::kernels::COMERA_CPU
