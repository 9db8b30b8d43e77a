// Look-ups in dense tables and their gradients. TTM tables are in ttm_embedding.cpp.
#include "kernels/embedding.h"

#include <cstring>

#include "kernels/cpu/common/id_runs.h"
#include "kernels/cpu/common/simd.h"
#include "kernels/cpu/ops.h"
#include "kernels/host/thread_pool.h"

namespace comera::kernels::COMERA_CPU {
namespace {

constexpr std::int64_t bags_of_tile = 32;
constexpr std::int64_t parts = 16;  // tiles of the gradient: each handles the ids with one remainder modulo `parts`

void add_row(float* y, const float* x, std::int64_t columns) {
  sweep(0, columns, [=](std::int64_t j, auto lanes) { store(y + j, load(y + j, lanes) + load(x + j, lanes), lanes); });
}

void add_weighted_row(float* y, const float* x, float weight, std::int64_t columns) {
  const F w = set(weight);
  sweep(0, columns,
        [=](std::int64_t j, auto lanes) { store(y + j, fma(w, load(x + j, lanes), load(y + j, lanes)), lanes); });
}

void forward_bag(const EmbeddingForward& a, std::int64_t bag) {
  const std::int64_t first = a.bags.offsets ? a.bags.offsets[bag] : bag,
                     last = a.bags.offsets ? a.bags.offsets[bag + 1] : bag + 1;
  const std::size_t bytes = static_cast<std::size_t>(a.columns) * sizeof(float);
  float* y = f32(a.y) + bag * a.columns;
  if (!a.accumulate && (first == last || a.bags.weights)) std::memset(y, 0, bytes);
  for (std::int64_t i = first; i < last; ++i) {
    const float* row = f32(a.table) + a.bags.id[i] * a.columns;
    if (a.bags.weights)
      add_weighted_row(y, row, a.bags.weights[i], a.columns);
    else if (i == first && !a.accumulate)
      std::memcpy(y, row, bytes);
    else
      add_row(y, row, a.columns);
  }
}

Status run(const Context& context, const EmbeddingForward& a) {
  if (context.dtype != DType::f32) return Status::unsupported_dtype;
  if (!ids_in_range(a.bags, a.rows)) return Status::unsupported_shape;
  parallel_for(context, tiles_of(a.bags.bags, bags_of_tile), [&](std::int64_t tile) {
    for (std::int64_t bag = tile * bags_of_tile; bag < min(a.bags.bags, (tile + 1) * bags_of_tile); ++bag)
      forward_bag(a, bag);
  });
  return Status::ok;
}

void add_gradient(const EmbeddingBackward& a, std::int64_t bag, std::int64_t position) {
  float* const row = f32(a.d_table) + a.bags.id[position] * a.columns;
  const float* const dy = f32(a.dy) + bag * a.columns;
  if (a.bags.weights)
    add_weighted_row(row, dy, a.bags.weights[position], a.columns);
  else
    add_row(row, dy, a.columns);
}

Status run(const Context& context, const EmbeddingBackward& a) {
  if (context.dtype != DType::f32) return Status::unsupported_dtype;
  if (!ids_in_range(a.bags, a.rows)) return Status::unsupported_shape;
  parallel_for(context, parts, [&](std::int64_t part) {
    for (std::int64_t bag = 0; bag < a.bags.bags; ++bag) {
      const std::int64_t first = a.bags.offsets ? a.bags.offsets[bag] : bag,
                         last = a.bags.offsets ? a.bags.offsets[bag + 1] : bag + 1;
      for (std::int64_t i = first; i < last; ++i)
        if (a.bags.id[i] % parts == part) add_gradient(a, bag, i);
    }
  });
  return Status::ok;
}

}  // namespace

void bind(Op<EmbeddingForward>& op) { op.run = run; }
void bind(Op<EmbeddingBackward>& op) { op.run = run; }

}  // namespace comera::kernels::COMERA_CPU
