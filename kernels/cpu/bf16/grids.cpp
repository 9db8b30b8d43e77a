// Weights on grids with bf16 activations: the products of floats, on widened copies of the inputs and results.
#include "kernels/grids.h"

#include "kernels/cpu/common/element.h"
#include "kernels/cpu/common/transpose.h"
#include "kernels/cpu/common/workspace.h"
#include "kernels/cpu/ops.h"
#include "kernels/host/thread_pool.h"

namespace comera::kernels {

namespace cpu_v4 {
const Backend& table();
}

namespace COMERA_CPU {
namespace {

constexpr std::int64_t rows_of_tile = 8;

template <class X, class Y>
void convert_rows(const Context& context, std::int64_t rows, std::int64_t columns, const X* x, std::int64_t ldx, Y* y,
                  std::int64_t ldy) {
  parallel_for(context, tiles_of(rows, rows_of_tile), [&](std::int64_t tile) {
    const std::int64_t row = tile * rows_of_tile;
    copy_block(min(rows_of_tile, rows - row), columns, x + row * ldx, ldx, y + row * ldy, ldy);
  });
}

template <class Args>
std::size_t workspace_of_floats(const Op<Args>& op, Context context, const Args& a) {
  context.dtype = DType::f32;
  return op.workspace_bytes ? op.workspace_bytes(context, a) : 0;
}

template <class Args>
Status run_with_floats(const Op<Args>& op, Context context, const Args& a, std::size_t used) {
  context.dtype = DType::f32;
  context.workspace = static_cast<char*>(context.workspace) + used, context.workspace_bytes -= used;
  return op.run(context, a);
}

constexpr std::int64_t tokens_at_once = 256;

struct LinearMemory {
  float *x, *y;
  std::size_t used;
  LinearMemory(void* memory, const GridLinear& a) {
    Workspace workspace(memory);
    const std::int64_t tokens = min(tokens_at_once, a.tokens);
    x = workspace.floats(tokens * a.weight.numbers), y = workspace.floats(tokens * a.weight.lines);
    used = workspace.used();
  }
};

std::size_t linear_workspace(const Context& context, const GridLinear& a) {
  const auto of_floats = [&](std::int64_t tokens) {
    GridLinear part = a;
    part.tokens = tokens;
    return workspace_of_floats(cpu_v4::table().grid_linear, context, part);
  };
  // A block of many tokens and the last one need different workspaces.
  const std::size_t inner = max(of_floats(min(tokens_at_once, a.tokens)), of_floats(a.tokens % tokens_at_once));
  return LinearMemory(nullptr, a).used + inner;
}

Status run(const Context& context, const GridLinear& a) {
  if (context.workspace_bytes < linear_workspace(context, a)) return Status::workspace_too_small;
  const LinearMemory memory(context.workspace, a);
  const std::int64_t in = a.weight.numbers, out = a.weight.lines;
  GridLinear floats = a;
  floats.x = memory.x, floats.ldx = in, floats.y = memory.y, floats.ldy = out;
  Status status = Status::ok;
  for (std::int64_t t = 0; t < a.tokens && status == Status::ok; t += tokens_at_once) {
    floats.tokens = min(tokens_at_once, a.tokens - t);
    Element* const y = elements(a.y) + t * a.ldy;
    convert_rows(context, floats.tokens, in, elements(a.x) + t * a.ldx, a.ldx, memory.x, in);
    if (a.accumulate) convert_rows(context, floats.tokens, out, y, a.ldy, memory.y, out);
    status = run_with_floats(cpu_v4::table().grid_linear, context, floats, memory.used);
    if (status == Status::ok) convert_rows(context, floats.tokens, out, memory.y, out, y, a.ldy);
  }
  return status;
}

std::size_t embedding_workspace(const Context& context, const GridEmbedding& a) {
  Workspace workspace(nullptr);
  workspace.floats(a.bags.bags * a.table.numbers);
  return workspace.used() + workspace_of_floats(cpu_v4::table().grid_embedding, context, a);
}

Status run(const Context& context, const GridEmbedding& a) {
  if (context.workspace_bytes < embedding_workspace(context, a)) return Status::workspace_too_small;
  Workspace workspace(context.workspace);
  const std::int64_t rows = a.bags.bags, columns = a.table.numbers;
  float* const y = workspace.floats(rows * columns);
  if (a.accumulate) convert_rows(context, rows, columns, elements(a.y), columns, y, columns);
  GridEmbedding floats = a;
  floats.y = y;
  const Status status = run_with_floats(cpu_v4::table().grid_embedding, context, floats, workspace.used());
  if (status == Status::ok) convert_rows(context, rows, columns, y, columns, elements(a.y), columns);
  return status;
}

}  // namespace

void bind(Op<GridLinear>& op) { op.run = run, op.workspace_bytes = linear_workspace; }
void bind(Op<GridEmbedding>& op) { op.run = run, op.workspace_bytes = embedding_workspace; }

}  // namespace COMERA_CPU
}  // namespace comera::kernels
