// TT linear layer on the CPU. Rows are split into tiles. Both products of a tile, and the ops fused to them, run while
// the tile is in the cache. The right factor and the gradient of the output are processed in panels of columns: a panel
// of one tile fits the L1 cache together with its operands.
#include "kernels/tt_linear.h"

#include "kernels/cpu/common/activation.h"
#include "kernels/cpu/common/gemm.h"
#include "kernels/cpu/common/transpose.h"
#include "kernels/cpu/common/tt_panels.h"
#include "kernels/cpu/common/tt_right.h"
#include "kernels/cpu/ops.h"
#include "kernels/linear.h"

namespace comera::kernels::COMERA_CPU {
namespace {

struct ForwardMemory {
  RightFactor right[max_outputs];
};
ForwardMemory forward_memory(const TtLinearForward& a, Workspace& workspace) {
  ForwardMemory memory;
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

// Computes y of one output for rows [row, row + rows).
template <class Act>
void forward_output(const TtLinearForward& a, const TtOutput& o, const RightFactor& right, std::int64_t row,
                    std::int64_t rows) {
  alignas(64) float block[tile_rows * panel];
  const float* t1 = f32(a.t1) + row * a.width + o.offset;
  for (std::int64_t j = 0; j < o.out; j += panel) {
    const std::int64_t columns = min(panel, o.out - j);
    right.multiply(rows, columns, t1, a.width, j, block);
    const float* bias = o.bias ? f32(o.bias) + j : nullptr;
    float* pre = o.pre ? f32(o.pre) + row * o.ldy + j : nullptr;
    float* y = f32(o.y) + row * o.ldy + j;
    if (a.tokens * o.out >= streamed_from) {
      finish_rows<Act, true>({rows, columns}, block, columns, bias, pre, y, o.ldy);
    } else {
      finish_rows<Act>({rows, columns}, block, columns, bias, pre, y, o.ldy);
    }
  }
}

void forward_tile(const TtLinearForward& a, const ForwardMemory& memory, std::int64_t row, std::int64_t rows) {
  if (!a.t1_is_given)
    SmallGemm({rows, a.width, a.in, a.ldx, a.width, a.width})(f32(a.x) + row * a.ldx, f32(a.left),
                                                              f32(a.t1) + row * a.width);
  for (int i = 0; i < a.outputs; ++i)
    with_activation(a.activation,
                    [&](auto act) { forward_output<decltype(act)>(a, a.output[i], memory.right[i], row, rows); });
}

Status run_forward(const Context& context, const TtLinearForward& a) {
  if (context.dtype != DType::f32) return Status::unsupported_dtype;
  if (context.workspace_bytes < forward_workspace(context, a)) return Status::workspace_too_small;
  Workspace workspace(context.workspace);
  const ForwardMemory memory = forward_memory(a, workspace);
  if (a.tokens >= packed_from)
    for_each_panel(context, a.output, a.outputs, [&](int i, std::int64_t p) { memory.right[i].pack(p); });
  const std::int64_t rows = forward_rows(a.tokens);
  parallel_for(context, tiles_of(a.tokens, rows),
               [&](std::int64_t tile) { forward_tile(a, memory, tile * rows, min(rows, a.tokens - tile * rows)); });
  return Status::ok;
}

struct BackwardMemory {
  std::int64_t groups = 1;
  float* left = nullptr;                      // A^T in panels of its columns
  float* right_transposed[max_outputs] = {};  // [N, R]
  float* right[max_outputs] = {};             // panels, to recompute pre
  PartialSums sums[max_outputs];
};

BackwardMemory backward_memory(const TtLinearBackward& a, Workspace& workspace) {
  BackwardMemory memory;
  memory.groups = groups_of(a);
  memory.left = workspace.floats(a.in * a.width);
  for (int i = 0; i < a.outputs; ++i) {
    const TtOutput& o = a.output[i];
    memory.right_transposed[i] = workspace.floats(o.rank * o.out);
    if (a.activation != Activation::none) memory.right[i] = workspace.floats(o.rank * o.out);
    memory.sums[i].take(workspace, memory.groups, o);
  }
  return memory;
}
std::size_t backward_workspace(const Context& context, const TtLinearBackward& a) {
  Workspace counter(nullptr);
  backward_memory(a, counter);
  return a.x ? max(counter.used(), product_workspace(context, left_gradient(a))) : counter.used();
}

void pack_for_backward(const Context& context, const TtLinearBackward& a, const BackwardMemory& memory) {
  for_each_panel(context, a.output, a.outputs, [&](int i, std::int64_t p) {
    const TtOutput& o = a.output[i];
    const std::int64_t j = p * panel;
    transpose(o.rank, min(panel, o.out - j), f32(o.right) + j, o.out, memory.right_transposed[i] + j * o.rank, o.rank);
    if (a.activation != Activation::none && !o.pre) pack_panel(f32(o.right), o.rank, o.out, p, memory.right[i]);
  });
}

void pack_left(const Context& context, const TtLinearBackward& a, const BackwardMemory& memory) {
  parallel_for(context, tiles_of(a.in, panel), [&](std::int64_t p) {
    const std::int64_t j = p * panel, columns = min(panel, a.in - j);
    transpose(columns, a.width, f32(a.left) + j * a.width, a.width, memory.left + j * a.width, columns);
  });
}

// Adds one output for rows [row, row + rows): its columns of U1, and the partial sums of `group`, which are overwritten
// if `first` is set.
template <class Act>
void backward_output(const TtLinearBackward& a, int i, const BackwardMemory& memory, std::int64_t group, bool first,
                     std::int64_t row, std::int64_t rows) {
  alignas(64) float d_pre[tile_rows * panel];
  alignas(64) float again[tile_rows * panel];
  const TtOutput& o = a.output[i];
  const float* t1 = f32(a.t1) + row * a.width + o.offset;
  float* u1 = f32(a.u1) + row * a.width + o.offset;
  float* d_bias = memory.sums[i].d_bias + group * o.out;
  float* d_right = memory.sums[i].d_right + group * o.rank * o.out;
  for (std::int64_t j = 0; j < o.out; j += panel) {
    const std::int64_t columns = min(panel, o.out - j);
    const float* pre = o.pre ? f32(o.pre) + row * o.ldy + j : again;
    if (!__is_same(Act, Identity) && !o.pre) {
      SmallGemm({rows, columns, o.rank, a.width, columns, columns})(t1, memory.right[i] + j * o.rank, again);
      finish_rows<Identity>({rows, columns}, again, columns, o.bias ? f32(o.bias) + j : nullptr, nullptr, again,
                            columns);
    }
    if (first) std::memset(d_bias + j, 0, static_cast<std::size_t>(columns) * sizeof(float));
    start_rows<Act>({rows, columns}, f32(o.dy) + row * o.ldy + j, o.ldy, pre, o.pre ? o.ldy : columns, d_pre, columns,
                    d_bias + j);
    SmallGemm(
        {.m = rows, .n = o.rank, .k = columns, .lda = columns, .ldb = o.rank, .ldc = a.width, .accumulate = j > 0})(
        d_pre, memory.right_transposed[i] + j * o.rank, u1);
    SmallGemm({o.rank, columns, rows, a.width, columns, columns, !first, true})(t1, d_pre, d_right + j * o.rank);
  }
}

// dx = or += U1 A^T for rows [row, row + rows).
void backward_input(const TtLinearBackward& a, const BackwardMemory& memory, std::int64_t row, std::int64_t rows) {
  alignas(64) float block[tile_rows * panel];
  const bool streaming = !a.accumulate_dx && a.tokens * a.in >= streamed_from;
  for (std::int64_t j = 0; j < a.in; j += panel) {
    const std::int64_t columns = min(panel, a.in - j);
    float* dx = f32(a.dx) + row * a.lddx + j;
    SmallGemm({rows, columns, a.width, a.width, columns, streaming ? columns : a.lddx, a.accumulate_dx})(
        f32(a.u1) + row * a.width, memory.left + j * a.width, streaming ? block : dx);
    if (streaming) write_block(true, rows, columns, block, columns, dx, a.lddx);
  }
}

Status run(const Context& context, const TtLinearBackward& a) {
  if (context.dtype != DType::f32) return Status::unsupported_dtype;
  if (context.workspace_bytes < backward_workspace(context, a)) return Status::workspace_too_small;
  if (a.tokens == 0) return Status::ok;
  Workspace workspace(context.workspace);
  const BackwardMemory memory = backward_memory(a, workspace);
  pack_for_backward(context, a, memory);
  const auto add_tile = [&](std::int64_t group, bool first, std::int64_t row, std::int64_t rows) {
    for (int i = 0; i < a.outputs; ++i)
      with_activation(a.activation,
                      [&](auto act) { backward_output<decltype(act)>(a, i, memory, group, first, row, rows); });
  };
  return run_backward(
      context, a, memory.sums, add_tile, [&] { pack_left(context, a, memory); },
      [&](std::int64_t row, std::int64_t rows) { backward_input(a, memory, row, rows); });
}

}  // namespace

void bind(Op<TtLinearForward>& op) { op.run = run_forward, op.workspace_bytes = forward_workspace; }
void bind(Op<TtLinearBackward>& op) { op.run = run, op.workspace_bytes = backward_workspace; }

}  // namespace comera::kernels::COMERA_CPU
