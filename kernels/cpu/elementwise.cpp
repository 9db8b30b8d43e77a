// Activations, gated products, sums and scalings.
#include "kernels/elementwise.h"

#include <cstring>

#include "kernels/cpu/common/activation.h"
#include "kernels/cpu/common/dropout_row.h"
#include "kernels/cpu/ops.h"
#include "kernels/host/thread_pool.h"

namespace comera::kernels::COMERA_CPU {
namespace {

constexpr std::int64_t chunk = 16384;  // elements per tile
constexpr std::size_t fill_chunk = 1 << 18;

// Calls body(i, lanes) for all vectors of [0, count), tile by tile.
template <class Body>
void for_all(const Context& context, std::int64_t count, Body body) {
  parallel_for(context, tiles_of(count, chunk),
               [&](std::int64_t tile) { sweep(tile * chunk, min(count, (tile + 1) * chunk), body); });
}

// Calls body(row) for all rows, several per tile.
template <class Body>
void for_rows(const Context& context, std::int64_t rows, std::int64_t columns, Body body) {
  const std::int64_t step = max<std::int64_t>(1, chunk / max<std::int64_t>(1, columns));
  parallel_for(context, tiles_of(rows, step), [&](std::int64_t tile) {
    for (std::int64_t row = tile * step; row < min(rows, (tile + 1) * step); ++row) body(row);
  });
}

// Calls body(i, at, lanes) for all vectors: i counts the numbers without gaps, at those of gate and up.
template <class Body>
void for_gated(const Context& context, const GatedRows& rows, std::int64_t count, Body body) {
  if (rows.ld == 0) return for_all(context, count, [=](std::int64_t i, auto lanes) { body(i, i, lanes); });
  for_rows(context, count / rows.columns, rows.columns, [=](std::int64_t row) {
    sweep(0, rows.columns, [=](std::int64_t j, auto lanes) { body(row * rows.columns + j, row * rows.ld + j, lanes); });
  });
}

Status run(const Context& context, const ActivationForward& a) {
  if (context.dtype != element_type) return Status::unsupported_dtype;
  const Element* x = elements(a.x);
  Element* y = elements(a.y);
  with_activation(a.activation, [&](auto act) {
    using Act = decltype(act);
    for_all(context, a.count, [=](std::int64_t i, auto lanes) { store(y + i, Act::value(load(x + i, lanes)), lanes); });
  });
  return Status::ok;
}

Status run(const Context& context, const ActivationBackward& a) {
  if (context.dtype != element_type) return Status::unsupported_dtype;
  const Element *x = elements(a.x), *dy = elements(a.dy);
  Element* dx = elements(a.dx);
  with_activation(a.activation, [&](auto act) {
    using Act = decltype(act);
    for_all(context, a.count, [=](std::int64_t i, auto lanes) {
      store(dx + i, load(dy + i, lanes) * Act::derivative(load(x + i, lanes)), lanes);
    });
  });
  return Status::ok;
}

Status run(const Context& context, const GatedForward& a) {
  if (context.dtype != element_type) return Status::unsupported_dtype;
  const Element *gate = elements(a.gate), *up = elements(a.up);
  Element* y = elements(a.y);
  with_activation(a.activation, [&](auto act) {
    using Act = decltype(act);
    for_gated(context, a.rows, a.count, [=](std::int64_t i, std::int64_t at, auto lanes) {
      store(y + i, Act::value(load(gate + at, lanes)) * load(up + at, lanes), lanes);
    });
  });
  return Status::ok;
}

Status run(const Context& context, const GatedBackward& a) {
  if (context.dtype != element_type) return Status::unsupported_dtype;
  const Element *gate = elements(a.gate), *up = elements(a.up), *dy = elements(a.dy);
  Element *d_gate = elements(a.d_gate), *d_up = elements(a.d_up);
  with_activation(a.activation, [&](auto act) {
    using Act = decltype(act);
    for_gated(context, a.rows, a.count, [=](std::int64_t i, std::int64_t at, auto lanes) {
      const F g = load(gate + at, lanes), u = load(up + at, lanes), d = load(dy + i, lanes);
      store(d_gate + at, d * u * Act::derivative(g), lanes);
      store(d_up + at, d * Act::value(g), lanes);
    });
  });
  return Status::ok;
}

std::int64_t rows_of_tile(const DropoutApply& a) {
  return max<std::int64_t>(1, chunk / max<std::int64_t>(1, a.columns));
}
std::size_t dropout_workspace(const Context&, const DropoutApply& a) {
  return static_cast<std::size_t>(tiles_of(a.tokens, rows_of_tile(a)) * dropout_row_bytes(a.columns));
}

Status run(const Context& context, const DropoutApply& a) {
  if (context.dtype != element_type) return Status::unsupported_dtype;
  if (context.workspace_bytes < dropout_workspace(context, a)) return Status::workspace_too_small;
  const DropoutRule rule(a.dropout);
  const std::int64_t step = rows_of_tile(a);
  for_rows(context, a.tokens, a.columns, [&](std::int64_t row) {
    std::uint8_t* bits = static_cast<std::uint8_t*>(context.workspace) + row / step * dropout_row_bytes(a.columns);
    const DropoutRow dropout(a.dropout, rule, row, a.columns, bits);
    const Element* x = elements(a.x) + row * a.columns;
    Element* y = elements(a.y) + row * a.columns;
    sweep(0, a.columns, [&](std::int64_t j, auto lanes) { store(y + j, dropout(load(x + j, lanes), j), lanes); });
  });
  return Status::ok;
}

Status run(const Context& context, const Fill& a) {
  char* data = static_cast<char*>(a.data);
  parallel_for(context, static_cast<std::int64_t>(tiles_of(a.bytes, fill_chunk)), [&](std::int64_t tile) {
    const std::size_t begin = static_cast<std::size_t>(tile) * fill_chunk;
    std::memset(data + begin, 0, min(fill_chunk, a.bytes - begin));
  });
  return Status::ok;
}

Status run(const Context& context, const AddScaled& a) {
  if (context.dtype != element_type) return Status::unsupported_dtype;
  const Element* x = elements(a.x);
  Element* y = elements(a.y);
  const F scale = set(static_cast<float>(a.scale));
  for_all(context, a.count,
          [=](std::int64_t i, auto lanes) { store(y + i, fma(scale, load(x + i, lanes), load(y + i, lanes)), lanes); });
  return Status::ok;
}

Status run(const Context& context, const GatherRows& a) {
  if (context.dtype != element_type) return Status::unsupported_dtype;
  const std::size_t bytes = static_cast<std::size_t>(a.columns) * sizeof(Element);
  for_rows(context, a.rows, a.columns, [&](std::int64_t row) {
    Element* y = elements(a.y) + row * a.columns;
    if (a.index[row] < 0)
      std::memset(y, 0, bytes);
    else
      std::memcpy(y, elements(a.x) + a.index[row] * a.ldx, bytes);
  });
  return Status::ok;
}

Status run(const Context& context, const ScatterRows& a) {
  if (context.dtype != element_type) return Status::unsupported_dtype;
  for_rows(context, a.rows, a.columns, [&](std::int64_t row) {
    if (a.index[row] < 0) return;
    const Element* dy = elements(a.dy) + row * a.source_distance();
    Element* dx = elements(a.dx) + a.index[row] * a.lddx;
    sweep(0, a.columns,
          [=](std::int64_t j, auto lanes) { store(dx + j, load(dx + j, lanes) + load(dy + j, lanes), lanes); });
  });
  return Status::ok;
}

}  // namespace

void bind(Op<ActivationForward>& op) { op.run = run; }
void bind(Op<ActivationBackward>& op) { op.run = run; }
void bind(Op<GatedForward>& op) { op.run = run; }
void bind(Op<GatedBackward>& op) { op.run = run; }
void bind(Op<DropoutApply>& op) { op.run = run, op.workspace_bytes = dropout_workspace; }
void bind(Op<Fill>& op) { op.run = run; }
void bind(Op<AddScaled>& op) { op.run = run; }
void bind(Op<GatherRows>& op) { op.run = run; }
void bind(Op<ScatterRows>& op) { op.run = run; }

}  // namespace comera::kernels::COMERA_CPU
