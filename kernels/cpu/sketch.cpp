// Random projections, by groups of rows.
#include "kernels/sketch.h"

#include "kernels/cpu/common/isa.h"
#include "kernels/cpu/common/workspace.h"
#include "kernels/cpu/ops.h"
#include "kernels/host/thread_pool.h"

namespace comera::kernels::COMERA_CPU {
namespace {

constexpr std::int64_t rows_of_tile = 16;

constexpr int blocks_at_once = 16;
constexpr std::int64_t columns_at_once = 4 * blocks_at_once;

// The entries of 16 blocks of a row. The compiler makes vectors of the loops over blocks.
void draw_blocks(const SketchRule& rule, std::int64_t row, std::int64_t first, float* to) {
  alignas(64) std::uint32_t c0[blocks_at_once], c1[blocks_at_once], c2[blocks_at_once], c3[blocks_at_once];
  for (int i = 0; i < blocks_at_once; ++i) {
    const PhiloxBlock counter = rule.counter(row, first + i);
    c0[i] = counter.word[0], c1[i] = counter.word[1], c2[i] = counter.word[2], c3[i] = counter.word[3];
  }
  std::uint32_t k0 = rule.key().word[0], k1 = rule.key().word[1];
  for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u)
    for (int i = 0; i < blocks_at_once; ++i) {
      const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c0[i], p1 = std::uint64_t{0xCD9E8D57u} * c2[i];
      c0[i] = static_cast<std::uint32_t>(p1 >> 32) ^ c1[i] ^ k0;
      c1[i] = static_cast<std::uint32_t>(p1);
      c2[i] = static_cast<std::uint32_t>(p0 >> 32) ^ c3[i] ^ k1;
      c3[i] = static_cast<std::uint32_t>(p0);
    }
  for (int i = 0; i < blocks_at_once; ++i) {
    to[4 * i] = rule.value_of(c0[i]), to[4 * i + 1] = rule.value_of(c1[i]);
    to[4 * i + 2] = rule.value_of(c2[i]), to[4 * i + 3] = rule.value_of(c3[i]);
  }
}

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
    const std::int64_t begin = tile * rows_of_tile, end = min(n, begin + rows_of_tile);
    float signs[rows_of_tile] = {};
    for (std::int64_t row = begin; orthonormal && row < end; ++row) signs[row - begin] = rule.sign(row);
    // P^T is written in pieces of a few lines of the cache.
    for (std::int64_t first = 0; first < r; first += columns_at_once)
      for (std::int64_t row = begin; row < end; ++row) {
        const std::int64_t count = min(r - first, columns_at_once);
        alignas(64) float drawn[columns_at_once];
        if (!orthonormal) draw_blocks(rule, row, first / 4, drawn);
        for (std::int64_t i = 0; orthonormal && i < count; ++i)
          drawn[i] = rule.entry(row, frequencies[first + i], signs[row - begin]);
        float* to = static_cast<float*>(a.p) + row * down + first * across;
        for (std::int64_t i = 0; i < count; ++i) to[i * across] = drawn[i];
      }
  });
  return Status::ok;
}

}  // namespace

void bind(Op<DrawSketch>& op) { op.run = run, op.workspace_bytes = workspace; }

}  // namespace comera::kernels::COMERA_CPU
