// Dot products of feature vectors. The vectors of an example are transposed, so that a lane holds one vector and all
// products with x_i are sums without a reduction across lanes.
#include "kernels/interaction.h"

#include <cstring>

#include "kernels/cpu/common/element.h"
#include "kernels/cpu/common/workspace.h"
#include "kernels/cpu/ops.h"
#include "kernels/host/thread_pool.h"

namespace comera::kernels::COMERA_CPU {
namespace {

constexpr std::int64_t parts = 64;  // each has room for one transposed example

std::int64_t padded(std::int64_t vectors) { return tiles_of<std::int64_t>(vectors, F::width) * F::width; }

template <class Args>
const Element* row_of(const Args& a, std::int64_t i, std::int64_t b) {
  return elements(a.x[i]) + b * a.columns;
}

template <class Body>
void for_rows(const Context& context, std::int64_t rows, Body body) {
  parallel_for(context, min(parts, rows), [&](std::int64_t part) {
    const Range range = part_of(rows, 1, min(parts, rows), part);
    for (std::int64_t b = range.first; b < range.last; ++b) body(b, part);
  });
}

// transposed [N, padded(F)] = the vectors of example b. Lanes behind F stay unread.
void transpose_row(const InteractionForward& a, std::int64_t b, float* transposed) {
  const std::int64_t ld = padded(a.vectors);
  for (std::int64_t j = 0; j < a.vectors; ++j) {
    const Element* x = row_of(a, j, b);
    for (std::int64_t k = 0; k < a.columns; ++k) transposed[k * ld + j] = number(x[k]);
  }
}

void multiply_row(const InteractionForward& a, std::int64_t b, const float* transposed) {
  const std::int64_t ld = padded(a.vectors);
  Element* const y = elements(a.y) + b * interaction_columns(a.vectors, a.columns);
  std::memcpy(y, row_of(a, 0, b), static_cast<std::size_t>(a.columns) * sizeof(Element));
  for (std::int64_t i = 1; i < a.vectors; ++i) {
    const Element* x = row_of(a, i, b);
    Element* products = y + a.columns + pair_index(i, 0);
    sweep(0, i, [&](std::int64_t j, auto lanes) {
      F sum = zero();
      for (std::int64_t k = 0; k < a.columns; ++k)
        sum = fma(set(number(x[k])), load(transposed + k * ld + j, lanes), sum);
      store(products + j, sum, lanes);
    });
  }
}

void backward_row(const InteractionBackward& a, std::int64_t b) {
  const Element* const dy = elements(a.dy) + b * interaction_columns(a.vectors, a.columns);
  const Element* const products = dy + a.columns;
  for (std::int64_t i = 0; i < a.vectors; ++i) {
    Element* const dx = elements(a.dx[i]) + b * a.columns;
    sweep(0, a.columns, [&](std::int64_t k, auto lanes) {
      F sum = i == 0 ? load(dy + k, lanes) : zero();
      for (std::int64_t j = 0; j < i; ++j)
        sum = fma(set(number(products[pair_index(i, j)])), load(row_of(a, j, b) + k, lanes), sum);
      for (std::int64_t j = i + 1; j < a.vectors; ++j)
        sum = fma(set(number(products[pair_index(j, i)])), load(row_of(a, j, b) + k, lanes), sum);
      store(dx + k, sum, lanes);
    });
  }
}

std::int64_t floats_of_part(const InteractionForward& a) { return padded(a.vectors) * a.columns; }

std::size_t forward_workspace(const Context&, const InteractionForward& a) {
  Workspace workspace(nullptr);
  workspace.floats(min(parts, a.rows) * floats_of_part(a));
  return workspace.used();
}

template <class Args>
Status check(const Context& context, const Args& a) {
  if (context.dtype != element_type) return Status::unsupported_dtype;
  return a.vectors >= 1 && a.vectors <= most_vectors ? Status::ok : Status::unsupported_shape;
}

Status run(const Context& context, const InteractionForward& a) {
  if (const Status status = check(context, a); status != Status::ok) return status;
  if (context.workspace_bytes < forward_workspace(context, a)) return Status::workspace_too_small;
  float* const workspace = f32(context.workspace);
  for_rows(context, a.rows, [&](std::int64_t b, std::int64_t part) {
    float* const transposed = workspace + part * floats_of_part(a);
    transpose_row(a, b, transposed);
    multiply_row(a, b, transposed);
  });
  return Status::ok;
}

Status run(const Context& context, const InteractionBackward& a) {
  if (const Status status = check(context, a); status != Status::ok) return status;
  for_rows(context, a.rows, [&](std::int64_t b, std::int64_t) { backward_row(a, b); });
  return Status::ok;
}

}  // namespace

void bind(Op<InteractionForward>& op) { op.run = run, op.workspace_bytes = forward_workspace; }
void bind(Op<InteractionBackward>& op) { op.run = run; }

}  // namespace comera::kernels::COMERA_CPU
