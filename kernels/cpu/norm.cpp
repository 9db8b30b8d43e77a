// LayerNorm and RMSNorm with one pass over memory in each direction. A row is summed with its residual, normalised and
// written while it is in the L1 cache.
#include "kernels/norm.h"

#include "kernels/cpu/common/dropout_row.h"
#include "kernels/cpu/common/group_lanes.h"
#include "kernels/cpu/common/norm_input.h"
#include "kernels/cpu/ops.h"
#include "kernels/host/thread_pool.h"

namespace comera::kernels::COMERA_CPU {
namespace {

constexpr std::int64_t column_tile = 256;  // columns per tile when the tiles' sums are added

const float* in(const void* p) { return static_cast<const float*>(p); }
float* out(void* p) { return static_cast<float*>(p); }

std::int64_t rows_of_tile(std::int64_t tokens) { return max<std::int64_t>(8, tiles_of<std::int64_t>(tokens, 64)); }
std::int64_t row_tiles(std::int64_t tokens) { return tiles_of(tokens, rows_of_tile(tokens)); }

// Calls body(row, tile) for all rows, in order within a tile.
template <class Body>
void for_rows(const Context& context, std::int64_t tokens, Body body) {
  const std::int64_t step = rows_of_tile(tokens);
  parallel_for(context, row_tiles(tokens), [&](std::int64_t tile) {
    for (std::int64_t row = tile * step; row < min(tokens, (tile + 1) * step); ++row) body(row, tile);
  });
}

// Mask bits of one row per tile: the dropout of x, then the dropout of y.
std::size_t mask_bytes(std::int64_t tokens, std::int64_t columns) {
  return static_cast<std::size_t>(2 * row_tiles(tokens) * dropout_row_bytes(columns));
}
struct Masks {
  std::uint8_t* first;
  std::int64_t stride;
  std::uint8_t* input(std::int64_t tile) const { return first + 2 * tile * stride; }
  std::uint8_t* output(std::int64_t tile) const { return first + (2 * tile + 1) * stride; }
};

// Mean and variance use two passes over a row, because the variance around the mean has no cancellation.
float mean_of(const Element* s, std::int64_t columns) {
  F total = zero();
  sweep(0, columns, [&](std::int64_t i, auto lanes) { total = total + load(s + i, lanes); });
  return sum(total) / static_cast<float>(columns);
}

F centred(const Element* s, std::int64_t i, F mean, All) { return load(s + i) - mean; }
F centred(const Element* s, std::int64_t i, F mean, Some lanes) {
  return keep(first_lanes(lanes.n), load(s + i, lanes) - mean);
}

float rstd_of(const Element* s, std::int64_t columns, float mean, double epsilon) {
  F total = zero();
  sweep(0, columns, [&](std::int64_t i, auto lanes) {
    const F c = centred(s, i, set(mean), lanes);
    total = fma(c, c, total);
  });
  return static_cast<float>(1 / __builtin_sqrt(sum(total) / static_cast<double>(columns) + epsilon));
}

// NormForward and NormApply share this code, so their bits are the same.
void normalise(const Element* s, std::int64_t columns, float mean, float rstd, const float* gain, const float* shift,
               const DropoutRow& dropout, Element* y) {
  const F m = set(mean), r = set(rstd);
  sweep(0, columns, [&](std::int64_t i, auto lanes) {
    const F h = (load(s + i, lanes) - m) * r, g = load(gain + i, lanes);
    store(y + i, dropout(shift ? fma(h, g, load(shift + i, lanes)) : h * g, i), lanes);
  });
}

// Computes s = residual + dropout(x) and stores it if a.sum is set. Returns a pointer to s.
const Element* sum_row(const NormForward& a, const DropoutRow& dropout, std::int64_t row) {
  const Element* x = elements(a.x) + row * a.columns;
  if (!a.sum || (!a.residual && !dropout.active() && a.sum == a.x)) return x;
  const Element* residual = a.residual ? elements(a.residual) + row * a.columns : nullptr;
  Element* s = elements(a.sum) + row * a.columns;
  sweep(0, a.columns, [&](std::int64_t i, auto lanes) {
    const F dropped = dropout(load(x + i, lanes), i);
    store(s + i, residual ? load(residual + i, lanes) + dropped : dropped, lanes);
  });
  return s;
}

std::size_t forward_workspace(const Context&, const NormForward& a) { return mask_bytes(a.tokens, a.columns); }

Status run(const Context& context, const NormForward& a) {
  if (context.dtype != element_type) return Status::unsupported_dtype;
  if (context.workspace_bytes < forward_workspace(context, a)) return Status::workspace_too_small;
  const DropoutRule rule(a.dropout), output_rule(a.output_dropout);
  if (!a.sum && (a.residual || rule.threshold > 0)) return Status::unsupported_shape;
  const Masks masks{static_cast<std::uint8_t*>(context.workspace), dropout_row_bytes(a.columns)};
  for_rows(context, a.tokens, [&](std::int64_t row, std::int64_t tile) {
    const DropoutRow dropout(a.dropout, rule, row, a.columns, masks.input(tile));
    const DropoutRow output_dropout(a.output_dropout, output_rule, row, a.columns, masks.output(tile));
    const Element* s = sum_row(a, dropout, row);
    const float mean = a.kind == NormKind::layer ? mean_of(s, a.columns) : 0.0f;
    const float rstd = rstd_of(s, a.columns, mean, a.epsilon);
    if (a.mean) out(a.mean)[row] = mean;
    out(a.rstd)[row] = rstd;
    normalise(s, a.columns, mean, rstd, in(a.gain), in(a.shift), output_dropout, elements(a.y) + row * a.columns);
  });
  return Status::ok;
}

std::size_t apply_workspace(const Context&, const NormApply& a) { return mask_bytes(a.tokens, a.columns); }

Status run(const Context& context, const NormApply& a) {
  if (context.dtype != element_type) return Status::unsupported_dtype;
  if (context.workspace_bytes < apply_workspace(context, a)) return Status::workspace_too_small;
  const DropoutRule rule(a.output_dropout);
  const Masks masks{static_cast<std::uint8_t*>(context.workspace), dropout_row_bytes(a.columns)};
  for_rows(context, a.tokens, [&](std::int64_t row, std::int64_t tile) {
    const DropoutRow dropout(a.output_dropout, rule, row, a.columns, masks.output(tile));
    const float mean = a.kind == NormKind::layer ? in(a.mean)[row] : 0.0f;
    normalise(elements(a.sum) + row * a.columns, a.columns, mean, in(a.rstd)[row], in(a.gain), in(a.shift), dropout,
              elements(a.y) + row * a.columns);
  });
  return Status::ok;
}

// Means that the gradient of a row needs: the means of g and g h, with g = dy gain and h = (s - mean) rstd.
struct RowMeans {
  float g = 0, gh = 0;
};

struct BackwardRow {
  const NormBackward& a;
  const DropoutRow& output_dropout;
  std::int64_t row;
  F mean, rstd;
  const Element *dy, *s;
  const float* gain;

  BackwardRow(const NormBackward& args, const DropoutRow& dropout, std::int64_t k, const Element* sum)
      : a(args),
        output_dropout(dropout),
        row(k),
        mean(set(args.kind == NormKind::layer ? in(args.mean)[k] : 0.0f)),
        rstd(set(in(args.rstd)[k])),
        dy(elements(args.dy) + k * args.columns),
        s(sum),
        gain(in(args.gain)) {}

  // Also adds the row to its tile's sums for gain and shift.
  RowMeans means(float* d_gain, float* d_shift) const {
    F g_sum = zero(), gh_sum = zero();
    sweep(0, a.columns, [&](std::int64_t i, auto lanes) {
      const F d = output_dropout(load(dy + i, lanes), i);
      const F h = (load(s + i, lanes) - mean) * rstd;
      const F g = d * load(gain + i, lanes);  // 0 beyond the end of the row
      g_sum = g_sum + g;
      gh_sum = fma(g, h, gh_sum);
      store(d_gain + i, fma(d, h, load(d_gain + i, lanes)), lanes);
      store(d_shift + i, load(d_shift + i, lanes) + d, lanes);
    });
    const float scale = 1.0f / static_cast<float>(a.columns);
    return {a.kind == NormKind::layer ? sum(g_sum) * scale : 0.0f, sum(gh_sum) * scale};
  }

  void write(RowMeans mean_of, const DropoutRow& dropout) const {
    const F g_mean = set(mean_of.g), gh_mean = set(mean_of.gh);
    const Element* d_sum_in = a.d_sum_in ? elements(a.d_sum_in) + row * a.columns : nullptr;
    Element* d_sum = elements(a.d_sum) + row * a.columns;
    Element* dx = a.dx && (a.dx != a.d_sum || dropout.active()) ? elements(a.dx) + row * a.columns : nullptr;
    sweep(0, a.columns, [&](std::int64_t i, auto lanes) {
      const F h = (load(s + i, lanes) - mean) * rstd;
      const F g = output_dropout(load(dy + i, lanes), i) * load(gain + i, lanes);
      const F ds = fnma(h, gh_mean, g - g_mean);
      const F total = d_sum_in ? fma(rstd, ds, load(d_sum_in + i, lanes)) : rstd * ds;
      store(d_sum + i, total, lanes);
      if (dx) store(dx + i, dropout(total, i), lanes);
    });
  }
};

// Sums of the tiles of rows: [tiles, 2, columns], gain before shift.
std::size_t partial_floats(const NormBackward& a) {
  return static_cast<std::size_t>(2 * row_tiles(a.tokens) * a.columns);
}

std::size_t backward_workspace(const Context&, const NormBackward& a) {
  return partial_floats(a) * sizeof(float) + mask_bytes(a.tokens, a.columns);
}

// to[i] += sum over tiles, in tile order.
void add_partials(const Context& context, const NormBackward& a, const float* partial, float* to) {
  if (!to) return;
  const std::int64_t tiles = row_tiles(a.tokens);
  parallel_for(context, tiles_of(a.columns, column_tile), [&](std::int64_t column) {
    sweep(column * column_tile, min(a.columns, (column + 1) * column_tile), [&](std::int64_t i, auto lanes) {
      F total = zero();
      for (std::int64_t tile = 0; tile < tiles; ++tile) total = total + load(partial + 2 * tile * a.columns + i, lanes);
      store(to + i, load(to + i, lanes) + total, lanes);
    });
  });
}

// sum_of(row, tile) returns a row of s.
template <class SumOf>
void differentiate(const Context& context, const NormBackward& a, SumOf sum_of) {
  const DropoutRule rule(a.dropout), output_rule(a.output_dropout);
  float* partial = static_cast<float*>(context.workspace);
  const Masks masks{reinterpret_cast<std::uint8_t*>(partial + partial_floats(a)), dropout_row_bytes(a.columns)};
  const std::int64_t step = rows_of_tile(a.tokens);
  for_rows(context, a.tokens, [&](std::int64_t row, std::int64_t tile) {
    float *d_gain = partial + 2 * tile * a.columns, *d_shift = d_gain + a.columns;
    if (row == tile * step)
      sweep(0, 2 * a.columns, [&](std::int64_t i, auto lanes) { store(d_gain + i, zero(), lanes); });
    const DropoutRow dropout(a.dropout, rule, row, a.dx ? a.columns : 0, masks.input(tile));
    const DropoutRow output_dropout(a.output_dropout, output_rule, row, a.columns, masks.output(tile));
    const BackwardRow backward(a, output_dropout, row, sum_of(row, tile));
    backward.write(backward.means(d_gain, d_shift), dropout);
  });
  add_partials(context, a, partial, out(a.d_gain));
  add_partials(context, a, partial + a.columns, out(a.d_shift));
}

Status run(const Context& context, const NormBackward& a) {
  if (context.dtype != element_type) return Status::unsupported_dtype;
  if (context.workspace_bytes < backward_workspace(context, a)) return Status::workspace_too_small;
  differentiate(context, a, [&](std::int64_t row, std::int64_t) { return elements(a.sum) + row * a.columns; });
  return Status::ok;
}

// Behind the memory of the backward the inverses of the gain and a row of s per tile.
struct OutputMemory {
  float* inverse;
  Element* rows;
  std::size_t bytes;

  OutputMemory(void* memory, const Context& context, const NormOutputBackward& a) {
    Workspace workspace(memory);
    workspace.floats(tiles_of<std::int64_t>(static_cast<std::int64_t>(backward_workspace(context, a.norm)), 4));
    inverse = workspace.floats(a.norm.columns);
    rows = as<Element>(workspace.floats(row_tiles(a.norm.tokens) * a.norm.columns));
    bytes = workspace.used();
  }
};

std::size_t output_workspace(const Context& context, const NormOutputBackward& a) {
  return OutputMemory(nullptr, context, a).bytes;
}

Status run(const Context& context, const NormOutputBackward& a) {
  if (context.dtype != element_type) return Status::unsupported_dtype;
  const OutputMemory memory(context.workspace, context, a);
  if (context.workspace_bytes < memory.bytes) return Status::workspace_too_small;
  invert_gain(a.input, memory.inverse);
  const std::int64_t columns = a.norm.columns;
  differentiate(context, a.norm, [&](std::int64_t row, std::int64_t tile) {
    Element* s = memory.rows + tile * columns;
    const Element* y = a.input.y ? elements(a.input.y) + row * columns : s;
    if (!a.input.y) restore_columns(a.coded.shape, a.coded.codes, a.coded.ranges, row, 0, columns, s);
    restore_input(a.input, memory.inverse, row, y, s);
    return s;
  });
  return Status::ok;
}

}  // namespace

void bind(Op<NormForward>& op) { op.run = run, op.workspace_bytes = forward_workspace; }
void bind(Op<NormApply>& op) { op.run = run, op.workspace_bytes = apply_workspace; }
void bind(Op<NormBackward>& op) { op.run = run, op.workspace_bytes = backward_workspace; }
void bind(Op<NormOutputBackward>& op) { op.run = run, op.workspace_bytes = output_workspace; }

}  // namespace comera::kernels::COMERA_CPU
