// The input of a norm from its output.
#include "kernels/norm_output.h"

#include "kernels/cpu/common/norm_input.h"
#include "kernels/cpu/ops.h"
#include "kernels/host/thread_pool.h"

namespace comera::kernels::COMERA_CPU {
namespace {

constexpr std::int64_t tile = 16384;  // elements of a tile, in whole rows
constexpr float taken = -1;           // a key of a picked column; others are not negative

template <class Body>
void for_rows(const Context& context, std::int64_t rows, std::int64_t columns, Body body) {
  const std::int64_t step = max<std::int64_t>(1, tile / max<std::int64_t>(1, columns));
  parallel_for(context, tiles_of(rows, step), [&](std::int64_t index) {
    for (std::int64_t row = index * step; row < min(rows, (index + 1) * step); ++row) body(row);
  });
}

std::size_t pick_workspace(const Context&, const NormPick& a) {
  return static_cast<std::size_t>(a.columns) * sizeof(float);
}

float key_of(const NormPick& a, std::int64_t column) {
  const float gain = __builtin_fabsf(f32(a.gain)[column]);
  return !a.shift || gain == 0 ? gain : gain / (gain + __builtin_fabsf(f32(a.shift)[column]));
}

// The first column with the smallest key among those that are not taken.
std::int64_t smallest(const float* keys, std::int64_t columns) {
  std::int64_t best = -1;
  for (std::int64_t j = 0; j < columns; ++j)
    if (keys[j] != taken && (best < 0 || keys[j] < keys[best])) best = j;
  return best;
}

Status run(const Context& context, const NormPick& a) {
  if (context.dtype != element_type) return Status::unsupported_dtype;
  if (context.workspace_bytes < pick_workspace(context, a)) return Status::workspace_too_small;
  float* keys = f32(context.workspace);
  const std::int64_t picked = picked_columns(a.columns);
  for (std::int64_t j = 0; j < a.columns; ++j) keys[j] = key_of(a, j);
  for (std::int64_t c = 0; c < picked; ++c) keys[smallest(keys, a.columns)] = taken;
  std::int64_t next = 0;
  for (std::int64_t j = 0; j < a.columns; ++j)
    if (keys[j] == taken) a.places[next++] = static_cast<std::int32_t>(j);
  for_rows(context, a.tokens, picked, [&](std::int64_t row) {
    for (std::int64_t c = 0; c < picked; ++c)
      elements(a.values)[row * picked + c] = elements(a.sum)[row * a.columns + a.places[c]];
  });
  return Status::ok;
}

std::size_t restore_workspace(const Context&, const NormRestore& a) {
  return static_cast<std::size_t>(a.columns) * sizeof(float);
}

Status run(const Context& context, const NormRestore& a) {
  if (context.dtype != element_type) return Status::unsupported_dtype;
  if (context.workspace_bytes < restore_workspace(context, a)) return Status::workspace_too_small;
  float* inverse = f32(context.workspace);
  invert_gain(a, inverse);
  for_rows(context, a.tokens, a.columns, [&](std::int64_t row) {
    restore_input(a, inverse, row, elements(a.y) + row * a.columns, elements(a.sum) + row * a.columns);
  });
  return Status::ok;
}

}  // namespace

void bind(Op<NormPick>& op) { op.run = run, op.workspace_bytes = pick_workspace; }
void bind(Op<NormRestore>& op) { op.run = run, op.workspace_bytes = restore_workspace; }

}  // namespace comera::kernels::COMERA_CPU
