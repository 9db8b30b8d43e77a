// TT linear layer of bf16 activations. Rows are split into tiles; both products of a tile, and the ops fused to them,
// run while the tile is in the cache. Words of the factors (pairs.h) are packed once per call. d_pre and U1 are rounded
// as factors of the products that follow; sums are float.
#include "kernels/tt_linear.h"

#include "kernels/cpu/bf16/pair_product.h"
#include "kernels/cpu/bf16/tt_right.h"
#include "kernels/cpu/common/activation.h"
#include "kernels/cpu/common/tt_panels.h"
#include "kernels/cpu/ops.h"
#include "kernels/linear.h"

namespace comera::kernels::COMERA_CPU {
namespace {

// Packs all columns of a right factor in parallel.
void pack(const Context& context, std::int64_t k, std::int64_t n, const Bf16* from, bool transposed, Word* to) {
  parallel_for(context, tiles_of(n, panel),
               [&](std::int64_t p) { pack_columns(k, n, p * panel, min(panel, n - p * panel), from, transposed, to); });
}

struct ForwardMemory {
  Word* left = nullptr;  // of A: [M / 2, width]
  RightFactor right[max_outputs];
};

ForwardMemory forward_memory(const TtLinearForward& a, Workspace& workspace) {
  ForwardMemory memory;
  if (!a.t1_is_given) memory.left = words(workspace, RightLayout::words(a.in, a.width));
  for (int i = 0; i < a.outputs; ++i) {
    const TtOutput& o = a.output[i];
    memory.right[i] = RightFactor(o.right, o.rank, o.out, a.tokens, workspace);
  }
  return memory;
}
std::size_t forward_workspace(const Context&, const TtLinearForward& a) {
  Workspace counter(nullptr);
  forward_memory(a, counter);
  return counter.used();
}

// T1 = x A for rows [row, row + rows).
void multiply_left(const TtLinearForward& a, const Word* left, std::int64_t row, std::int64_t rows) {
  alignas(64) float sums[tile_rows * strip];
  alignas(64) Bf16 copy[tile_rows * inner];
  const RightLayout layout(a.in, a.width);
  for (std::int64_t j = 0; j < a.width; j += strip) {
    const std::int64_t columns = min(strip, a.width - j);
    for (std::int64_t first = 0; first < max<std::int64_t>(a.in, 1); first += inner) {
      const std::int64_t count = min(inner, a.in - first);
      const LeftWords x = rows_of(rows, count, elements(a.x) + row * a.ldx + first, a.ldx, copy);
      multiply_pairs({rows, columns, pairs_of(count), layout.ld, columns, first > 0, layout.panel}, x,
                     left + layout.at(j) + first / 2 * layout.ld, sums);
    }
    write_block(false, rows, columns, sums, columns, elements(a.t1) + row * a.width + j, a.width);
  }
}

// Computes y of one output for rows [row, row + rows).
template <class Act>
void forward_output(const TtLinearForward& a, const TtOutput& o, const RightFactor& right, std::int64_t row,
                    std::int64_t rows) {
  alignas(64) float block[tile_rows * panel];
  const Bf16* t1 = elements(a.t1) + row * a.width + o.offset;
  for (std::int64_t j = 0; j < o.out; j += panel) {
    const std::int64_t columns = min(panel, o.out - j), at = row * o.ldy + j;
    right.multiply(rows, columns, t1, a.width, j, block);
    const float* bias = o.bias ? f32(o.bias) + j : nullptr;
    Element *pre = o.pre ? elements(o.pre) + at : nullptr, *y = elements(o.y) + at;
    if (a.tokens * o.out >= streamed_from)
      finish_rows<Act, true>({rows, columns}, block, columns, bias, pre, y, o.ldy);
    else
      finish_rows<Act>({rows, columns}, block, columns, bias, pre, y, o.ldy);
  }
}

Status run(const Context& context, const TtLinearForward& a) {
  if (context.workspace_bytes < forward_workspace(context, a)) return Status::workspace_too_small;
  Workspace workspace(context.workspace);
  const ForwardMemory memory = forward_memory(a, workspace);
  if (!a.t1_is_given) pack(context, a.in, a.width, elements(a.left), false, memory.left);
  for_each_panel(context, a.output, a.outputs, [&](int i, std::int64_t p) { memory.right[i].pack(p); });
  const std::int64_t step = forward_rows(a.tokens);
  parallel_for(context, tiles_of(a.tokens, step), [&](std::int64_t tile) {
    const std::int64_t row = tile * step, rows = min(step, a.tokens - row);
    if (!a.t1_is_given) multiply_left(a, memory.left, row, rows);
    for (int i = 0; i < a.outputs; ++i)
      with_activation(a.activation,
                      [&](auto act) { forward_output<decltype(act)>(a, a.output[i], memory.right[i], row, rows); });
  });
  return Status::ok;
}

struct BackwardMemory {
  std::int64_t groups = 1;
  Word* left = nullptr;                      // of A^T: [width / 2, M]
  Word* right_transposed[max_outputs] = {};  // of B^T, panel after panel of its rows: [columns / 2, R]
  Word* right[max_outputs] = {};             // of B, to recompute pre
  PartialSums sums[max_outputs];
  float* u1[max_outputs] = {};  // per group: sums of one tile [rows, R]
  Word* t1[max_outputs] = {};   // per group: words of T1^T of one tile
};

bool recomputes(const TtLinearBackward& a, const TtOutput& o) { return a.activation != Activation::none && !o.pre; }

BackwardMemory backward_memory(const TtLinearBackward& a, Workspace& workspace) {
  BackwardMemory memory;
  memory.groups = groups_of(a);
  memory.left = words(workspace, RightLayout::words(a.width, a.in));
  for (int i = 0; i < a.outputs; ++i) {
    const TtOutput& o = a.output[i];
    memory.right_transposed[i] = words(workspace, pairs_of(o.out) * o.rank);
    if (a.activation != Activation::none) memory.right[i] = words(workspace, RightLayout::words(o.rank, o.out));
    memory.sums[i].take(workspace, memory.groups, o);
    memory.u1[i] = workspace.floats(memory.groups * tile_rows * o.rank);
    memory.t1[i] = words(workspace, memory.groups * tile_rows / 2 * o.rank);
  }
  return memory;
}

std::size_t backward_workspace(const Context& context, const TtLinearBackward& a) {
  Workspace counter(nullptr);
  backward_memory(a, counter);
  return a.x ? max(counter.used(), product_workspace(context, left_gradient(a))) : counter.used();
}

void pack_right_factors(const Context& context, const TtLinearBackward& a, const BackwardMemory& memory) {
  for_each_panel(context, a.output, a.outputs, [&](int i, std::int64_t p) {
    const TtOutput& o = a.output[i];
    const std::int64_t j = p * panel, columns = min(panel, o.out - j);
    const Bf16* right = elements(o.right) + j;
    pack_pairs_transposed(columns, o.rank, right, o.out, memory.right_transposed[i] + j / 2 * o.rank, o.rank);
    if (recomputes(a, o)) pack_columns(o.rank, o.out, j, columns, elements(o.right), false, memory.right[i]);
  });
}

void pack_left(const Context& context, const TtLinearBackward& a, const BackwardMemory& memory) {
  pack(context, a.width, a.in, elements(a.left), true, memory.left);
}

// One output of a tile of rows, whose sums belong to one group.
struct BackwardTile {
  const TtLinearBackward& a;
  const BackwardMemory& memory;
  std::int64_t group;
  bool first;  // of its group: partial sums are overwritten
  std::int64_t row, rows;

  // d_pre of one panel of columns; an odd last column is followed by a zero.
  template <class Act>
  void start(const TtOutput& o, int i, std::int64_t j, std::int64_t columns, Bf16* d_pre, float* d_bias) const {
    const Bf16* dy = elements(o.dy) + row * o.ldy + j;
    if (!__is_same(Act, Identity) && !o.pre) {
      alignas(64) float again[tile_rows * panel];
      const RightLayout layout(o.rank, o.out);
      multiply_pairs({rows, columns, pairs_of(o.rank), layout.ld, columns, false, layout.panel},
                     rows_of(elements(a.t1) + row * a.width + o.offset, a.width), memory.right[i] + layout.at(j),
                     again);
      finish_rows<Identity>({rows, columns}, again, columns, o.bias ? f32(o.bias) + j : nullptr, nullptr, again,
                            columns);
      start_rows<Act>({rows, columns}, dy, o.ldy, again, columns, d_pre, panel, d_bias);
    } else {
      const Bf16* pre = o.pre ? elements(o.pre) + row * o.ldy + j : nullptr;
      start_rows<Act>({rows, columns}, dy, o.ldy, pre, o.ldy, d_pre, panel, d_bias);
    }
    if (columns % 2 != 0)
      for (std::int64_t r = 0; r < rows; ++r) d_pre[r * panel + columns] = {};
  }

  template <class Act>
  void run(int i) const {
    alignas(64) Bf16 d_pre[tile_rows * panel];
    alignas(64) Word d_pre_words[tile_rows / 2 * panel];
    const TtOutput& o = a.output[i];
    float* u1 = memory.u1[i] + group * tile_rows * o.rank;
    Word* t1 = memory.t1[i] + group * tile_rows / 2 * o.rank;
    float* d_bias = memory.sums[i].d_bias + group * o.out;
    float* d_right = memory.sums[i].d_right + group * o.rank * o.out;
    pack_pairs(rows, o.rank, elements(a.t1) + row * a.width + o.offset, a.width, t1, o.rank);
    for (std::int64_t j = 0; j < o.out; j += panel) {
      const std::int64_t columns = min(panel, o.out - j);
      if (first) std::memset(d_bias + j, 0, static_cast<std::size_t>(columns) * sizeof(float));
      start<Act>(o, i, j, columns, d_pre, d_bias + j);
      multiply_pairs({rows, o.rank, pairs_of(columns), o.rank, o.rank, j > 0}, rows_of(d_pre, panel),
                     memory.right_transposed[i] + j / 2 * o.rank, u1);
      pack_pairs(rows, columns, d_pre, panel, d_pre_words, columns);
      multiply_pairs({o.rank, columns, pairs_of(rows), columns, columns, !first}, columns_of(t1, o.rank), d_pre_words,
                     d_right + j * o.rank);
    }
    write_block(false, rows, o.rank, u1, o.rank, elements(a.u1) + row * a.width + o.offset, a.width);
  }
};

// dx = or += U1 A^T for rows [row, row + rows).
void backward_input(const TtLinearBackward& a, const Word* left, std::int64_t row, std::int64_t rows) {
  alignas(64) float block[tile_rows * panel];
  const RightLayout layout(a.width, a.in);
  for (std::int64_t j = 0; j < a.in; j += panel) {
    const std::int64_t columns = min(panel, a.in - j);
    multiply_pairs({rows, columns, pairs_of(a.width), layout.ld, columns, false, layout.panel},
                   rows_of(elements(a.u1) + row * a.width, a.width), left + layout.at(j), block);
    Bf16* dx = elements(a.dx) + row * a.lddx + j;
    if (!a.accumulate_dx) {
      write_block(a.tokens * a.in >= streamed_from, rows, columns, block, columns, dx, a.lddx);
      continue;
    }
    for (std::int64_t i = 0; i < rows; ++i)
      sweep(0, columns, [&](std::int64_t c, auto lanes) {
        store(dx + i * a.lddx + c, load(dx + i * a.lddx + c, lanes) + load(block + i * columns + c, lanes), lanes);
      });
  }
}

Status run(const Context& context, const TtLinearBackward& a) {
  if (context.workspace_bytes < backward_workspace(context, a)) return Status::workspace_too_small;
  if (a.tokens == 0) return Status::ok;
  Workspace workspace(context.workspace);
  const BackwardMemory memory = backward_memory(a, workspace);
  pack_right_factors(context, a, memory);
  const auto add_tile = [&](std::int64_t group, bool first, std::int64_t row, std::int64_t rows) {
    const BackwardTile tile{a, memory, group, first, row, rows};
    for (int i = 0; i < a.outputs; ++i) with_activation(a.activation, [&](auto act) { tile.run<decltype(act)>(i); });
  };
  return run_backward(
      context, a, memory.sums, add_tile, [&] { pack_left(context, a, memory); },
      [&](std::int64_t row, std::int64_t rows) { backward_input(a, memory.left, row, rows); });
}

}  // namespace

void bind(Op<TtLinearForward>& op) { op.run = run, op.workspace_bytes = forward_workspace; }
void bind(Op<TtLinearBackward>& op) { op.run = run, op.workspace_bytes = backward_workspace; }

}  // namespace comera::kernels::COMERA_CPU
