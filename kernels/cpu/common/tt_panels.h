// Parts of a TT layer that do not depend on the type of activations: panels of columns, and partial sums of the
// gradients of right factors and biases. Tiles of rows form groups with sums of their own, which are added in group
// order.
#pragma once

#include "kernels/cpu/common/simd.h"
#include "kernels/cpu/common/workspace.h"
#include "kernels/cpu/ops.h"
#include "kernels/host/thread_pool.h"
#include "kernels/linear.h"
#include "kernels/tt_linear.h"

namespace comera::kernels::COMERA_CPU {

constexpr std::int64_t panel = 128;     // columns
constexpr std::int64_t tile_rows = 64;  // rows of a tile of the backward, and of the forward if there are many tokens

inline std::int64_t forward_rows(std::int64_t tokens) { return tokens >= 1024 ? tile_rows : tokens >= 256 ? 32 : 16; }

// Calls visit(output, panel) for every panel of every output, in parallel.
template <class Visit>
void for_each_panel(const Context& context, const TtOutput* output, int outputs, Visit visit) {
  std::int64_t panels = 0;
  for (int i = 0; i < outputs; ++i) panels += tiles_of(output[i].out, panel);
  parallel_for(context, panels, [&](std::int64_t p) {
    int i = 0;
    for (; p >= tiles_of(output[i].out, panel); ++i) p -= tiles_of(output[i].out, panel);
    visit(i, p);
  });
}

inline std::int64_t groups_of(const TtLinearBackward& a) {
  constexpr std::int64_t largest_groups = 16;
  // Limit for all partial sums together, in floats, unless two groups alone need more.
  constexpr std::int64_t partial_floats = 4 << 20;
  std::int64_t partial = 1;
  for (int i = 0; i < a.outputs; ++i) partial += (a.output[i].rank + 1) * a.output[i].out;
  const std::int64_t affordable = max<std::int64_t>(2, partial_floats / partial);
  return max<std::int64_t>(1, min(tiles_of(a.tokens, tile_rows), min(largest_groups, affordable)));
}

struct PartialSums {
  std::int64_t groups = 1;
  float* d_right = nullptr;  // per group: panels of [R, columns]
  float* d_bias = nullptr;   // per group: [N]

  void take(Workspace& workspace, std::int64_t count, const TtOutput& o) {
    groups = count;
    d_right = workspace.floats(groups * o.rank * o.out);
    d_bias = workspace.floats(groups * o.out);
  }

  // Adds the sums of all groups to the gradients of one panel.
  void reduce(const TtOutput& o, std::int64_t p) const {
    const std::int64_t j = p * panel, columns = min(panel, o.out - j);
    for (std::int64_t r = 0; r <= o.rank; ++r) {
      float* total = r < o.rank ? f32(o.d_right) + r * o.out + j : o.d_bias ? f32(o.d_bias) + j : nullptr;
      if (!total) continue;
      const float* part = r < o.rank ? d_right + j * o.rank + r * columns : d_bias + j;
      const std::int64_t stride = r < o.rank ? o.rank * o.out : o.out;
      for (std::int64_t c = 0; c < columns; c += F::width) {
        const std::int64_t lanes = min<std::int64_t>(F::width, columns - c);
        F sum = load(part + c, lanes);
        for (std::int64_t g = 1; g < groups; ++g) sum = sum + load(part + g * stride + c, lanes);
        store(total + c, load(total + c, lanes) + sum, lanes);
      }
    }
  }
};

// d_A, computed after everything else.
inline Product left_gradient(const TtLinearBackward& a) {
  return {a.tokens, a.in, a.width, a.x, a.ldx, a.u1, a.width, a.d_left, a.width};
}

// The order of a backward. `sums` are those of the outputs. add_tile(group, first of its group, row, rows) adds a tile
// to U1 and to the sums; input(row, rows) computes dx from U1, after pack_left().
template <class AddTile, class PackLeft, class Input>
Status run_backward(const Context& context, const TtLinearBackward& a, const PartialSums* sums, AddTile add_tile,
                    PackLeft pack_left, Input input) {
  const bool in_place = a.x && a.dx == a.x, with_tiles = a.dx && !in_place;
  if (with_tiles) pack_left();
  const std::int64_t groups = groups_of(a);
  parallel_for(context, groups, [&](std::int64_t group) {
    const Range range = part_of(a.tokens, tile_rows, groups, group);
    for (std::int64_t row = range.first; row < range.last; row += tile_rows) {
      const std::int64_t rows = min(tile_rows, range.last - row);
      add_tile(group, row == range.first, row, rows);
      if (with_tiles) input(row, rows);
    }
  });
  for_each_panel(context, a.output, a.outputs, [&](int i, std::int64_t p) { sums[i].reduce(a.output[i], p); });
  if (!a.x) return Status::ok;
  const Status status = run_product(context, left_gradient(a));
  if (status != Status::ok || !in_place) return status;
  // dx in the memory of x: the last use of x is behind, and the product has used the workspace.
  pack_left();
  parallel_for(context, tiles_of(a.tokens, tile_rows),
               [&](std::int64_t tile) { input(tile * tile_rows, min(tile_rows, a.tokens - tile * tile_rows)); });
  return Status::ok;
}

}  // namespace comera::kernels::COMERA_CPU
