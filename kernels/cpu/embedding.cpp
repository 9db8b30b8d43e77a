// Look-ups in dense tables and their gradients. TTM tables are in ttm_embedding.cpp.
#include "kernels/embedding.h"

#include "kernels/cpu/common/element.h"
#include "kernels/cpu/common/id_runs.h"
#include "kernels/cpu/common/workspace.h"
#include "kernels/cpu/ops.h"
#include "kernels/host/thread_pool.h"

namespace comera::kernels::COMERA_CPU {
namespace {

constexpr std::int64_t bags_of_tile = 32;
constexpr std::int64_t columns_at_once = 1024;
constexpr std::int64_t parts = 16;  // tiles of the gradient: each handles the ids with one remainder modulo `parts`

template <class Y, class X>
void copy_row(Y* y, const X* x, std::int64_t columns) {
  sweep(0, columns, [=](std::int64_t j, auto lanes) { store(y + j, load(x + j, lanes), lanes); });
}

template <class X>
void add_row(float* y, const X* x, std::int64_t columns) {
  sweep(0, columns, [=](std::int64_t j, auto lanes) { store(y + j, load(y + j, lanes) + load(x + j, lanes), lanes); });
}

template <class X>
void add_weighted_row(float* y, const X* x, float weight, std::int64_t columns) {
  const F w = set(weight);
  sweep(0, columns,
        [=](std::int64_t j, auto lanes) { store(y + j, fma(w, load(x + j, lanes), load(y + j, lanes)), lanes); });
}

// Columns [begin, begin + columns) of a bag's sum; activations are rounded once.
void sum_bag(const EmbeddingForward& a, Range ids, std::int64_t begin, std::int64_t columns, Element* y) {
  alignas(64) float sum[columns_at_once];
  std::int64_t i = ids.first;
  if (a.accumulate) {
    copy_row(sum, y, columns);
  } else if (i == ids.last || a.bags.weights) {
    for (std::int64_t j = 0; j < columns; ++j) sum[j] = 0;
  } else {
    copy_row(sum, f32(a.table) + a.bags.id[i++] * a.columns + begin, columns);
  }
  for (; i < ids.last; ++i) {
    const float* row = f32(a.table) + a.bags.id[i] * a.columns + begin;
    if (a.bags.weights)
      add_weighted_row(sum, row, a.bags.weights[i], columns);
    else
      add_row(sum, row, columns);
  }
  copy_row(y, sum, columns);
}

// A bag of the id at a position.
void one_id(const EmbeddingForward& a, std::int64_t position, Element* y) {
  const float* row = f32(a.table) + a.bags.id[position] * a.columns;
  const bool weighted = a.bags.weights != nullptr;
  const F weight = set(weighted ? a.bags.weights[position] : 1.0f);
  sweep(0, a.columns, [&](std::int64_t j, auto lanes) {
    F x = load(row + j, lanes);
    if (weighted) x = fma(weight, x, a.accumulate ? load(y + j, lanes) : zero());
    if (!weighted && a.accumulate) x = load(y + j, lanes) + x;
    store(y + j, x, lanes);
  });
}

void forward_bag(const EmbeddingForward& a, std::int64_t bag) {
  const Range ids = a.bags.offsets ? Range{a.bags.offsets[bag], a.bags.offsets[bag + 1]} : Range{bag, bag + 1};
  Element* y = elements(a.y) + bag * a.columns;
  if (ids.last == ids.first + 1) return one_id(a, ids.first, y);
  for (std::int64_t j = 0; j < a.columns; j += columns_at_once)
    sum_bag(a, ids, j, min(columns_at_once, a.columns - j), y + j);
}

Status run(const Context& context, const EmbeddingForward& a) {
  if (context.dtype != element_type) return Status::unsupported_dtype;
  if (!ids_in_range(a.bags, a.rows)) return Status::unsupported_shape;
  parallel_for(context, tiles_of(a.bags.bags, bags_of_tile), [&](std::int64_t tile) {
    for (std::int64_t bag = tile * bags_of_tile; bag < min(a.bags.bags, (tile + 1) * bags_of_tile); ++bag)
      forward_bag(a, bag);
  });
  return Status::ok;
}

void add_gradient(const EmbeddingBackward& a, std::int64_t bag, std::int64_t position) {
  float* const row = f32(a.d_table) + a.bags.id[position] * a.columns;
  const Element* const dy = elements(a.dy) + bag * a.columns;
  if (a.bags.weights)
    add_weighted_row(row, dy, a.bags.weights[position], a.columns);
  else
    add_row(row, dy, a.columns);
}

Status run(const Context& context, const EmbeddingBackward& a) {
  if (context.dtype != element_type) return Status::unsupported_dtype;
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
