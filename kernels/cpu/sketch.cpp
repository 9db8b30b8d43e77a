// Random projections, by groups of rows.
#include "kernels/sketch.h"

#include "kernels/cpu/common/element.h"
#include "kernels/cpu/common/workspace.h"
#include "kernels/cpu/ops.h"
#include "kernels/host/thread_pool.h"

namespace comera::kernels::COMERA_CPU {
namespace {

constexpr std::int64_t rows_of_tile = 16, columns_at_once = 64;
constexpr std::int64_t columns_of_sums = 512;  // on the stack

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

// The signs of the rows and the shifts of their blocks.
struct CountSketch {
  float* signs;
  std::int32_t* shifts;
  std::size_t bytes;

  CountSketch(void* memory, const Sketch& sketch) {
    Workspace workspace(memory);
    signs = workspace.floats(sketch.inputs);
    shifts = workspace.ints(tiles_of(sketch.inputs, sketch.rank));
    bytes = workspace.used();
  }
  void draw(const SketchRule& rule, const Sketch& sketch) const {
    for (std::int64_t row = 0; row < sketch.inputs; ++row) signs[row] = rule.sign(row);
    for (std::int64_t block = 0; block * sketch.rank < sketch.inputs; ++block)
      shifts[block] = static_cast<std::int32_t>(rule.shift(block));
  }
};

std::size_t columns_workspace(const Context&, const SketchColumns& a) { return CountSketch(nullptr, a.sketch).bytes; }
std::size_t rows_workspace(const Context&, const SketchRows& a) { return CountSketch(nullptr, a.sketch).bytes; }

// Columns [first, last) of a row of z: each block of x adds at most two pieces of neighbouring numbers.
void add_blocks(const SketchColumns& a, const CountSketch& drawn, const Element* x, std::int64_t first,
                std::int64_t last, float* z) {
  const std::int64_t n = a.sketch.inputs, r = a.sketch.rank;
  for (std::int64_t j = 0; j < last - first; j += F::width) store(z + j, zero());
  for (std::int64_t begin = 0, block = 0; begin < n; begin += r, ++block) {
    const std::int64_t shift = drawn.shifts[block], count = min(r, n - begin);
    // Numbers [from, to) of the block lie in columns [from + shift - turn, to + shift - turn).
    for (std::int64_t turn = 0; turn <= r; turn += r) {
      const std::int64_t from = max<std::int64_t>(0, first + turn - shift), to = min(count, last + turn - shift);
      float* sum = z + from + shift - turn - first;
      sweep(0, to - from, [&](std::int64_t j, auto lanes) {
        const F number = load(x + begin + from + j, lanes), sign = load(drawn.signs + begin + from + j, lanes);
        store(sum + j, fma(number, sign, load(sum + j, lanes)), lanes);
      });
    }
  }
}

Status run(const Context& context, const SketchColumns& a) {
  if (context.dtype != element_type) return Status::unsupported_dtype;
  if (a.sketch.kind != SketchKind::count) return Status::unsupported_shape;
  const CountSketch drawn(context.workspace, a.sketch);
  if (context.workspace_bytes < drawn.bytes) return Status::workspace_too_small;
  drawn.draw(SketchRule(a.sketch, 1, *a.scalars), a.sketch);
  const std::int64_t r = a.sketch.rank;
  parallel_for(context, tiles_of(a.tokens, rows_of_tile), [&](std::int64_t tile) {
    alignas(64) float z[columns_of_sums];
    for (std::int64_t row = tile * rows_of_tile; row < min(a.tokens, (tile + 1) * rows_of_tile); ++row)
      for (std::int64_t first = 0; first < r; first += columns_of_sums) {
        const std::int64_t last = min(r, first + columns_of_sums);
        add_blocks(a, drawn, elements(a.x) + row * a.sketch.inputs, first, last, z);
        Element* to = elements(a.z) + row * r + first;
        sweep(0, last - first, [&](std::int64_t j, auto lanes) { store(to + j, load(z + j, lanes), lanes); });
      }
  });
  return Status::ok;
}

Status run(const Context& context, const SketchRows& a) {
  if (context.dtype != element_type) return Status::unsupported_dtype;
  if (a.sketch.kind != SketchKind::count) return Status::unsupported_shape;
  const CountSketch drawn(context.workspace, a.sketch);
  if (context.workspace_bytes < drawn.bytes) return Status::workspace_too_small;
  drawn.draw(SketchRule(a.sketch, a.scale, *a.scalars), a.sketch);
  const std::int64_t n = a.sketch.inputs, r = a.sketch.rank;
  parallel_for(context, tiles_of(n, rows_of_tile), [&](std::int64_t tile) {
    for (std::int64_t row = tile * rows_of_tile; row < min(n, (tile + 1) * rows_of_tile); ++row) {
      const float* t = f32(a.t) + (row + drawn.shifts[row / r]) % r * a.out;
      float* to = f32(a.result) + row * a.out;
      const F sign = set(drawn.signs[row]);
      sweep(0, a.out, [&](std::int64_t j, auto lanes) {
        store(to + j, fma(sign, load(t + j, lanes), load(to + j, lanes)), lanes);
      });
    }
  });
  return Status::ok;
}

}  // namespace

void bind(Op<DrawSketch>& op) { op.run = run, op.workspace_bytes = workspace; }
void bind(Op<SketchColumns>& op) { op.run = run, op.workspace_bytes = columns_workspace; }
void bind(Op<SketchRows>& op) { op.run = run, op.workspace_bytes = rows_workspace; }

}  // namespace comera::kernels::COMERA_CPU
