// Products with weights on grids. Few tokens: a warp reads a line once, a number of the block per lane. More tokens:
// the lines are unpacked into the workspace for gemm(). Look-ups: a warp per bag.
#include "kernels/cuda/common/reduce.h"
#include "kernels/cuda/common/tall.h"
#include "kernels/cuda/ops.h"
#include "kernels/grids.h"

namespace comera::kernels::cuda {
namespace {

constexpr unsigned warps = 8;  // of a block
constexpr int tokens_at_once = 4;
constexpr std::int64_t few_tokens = 16;
static_assert(grid_block == warp_size);

COMERA_DEVICE std::int64_t first_warp() { return static_cast<std::int64_t>(blockIdx.x) * warps + threadIdx.y; }
COMERA_DEVICE std::int64_t warp_stride() { return static_cast<std::int64_t>(gridDim.x) * warps; }

// Bound by the bytes of the weight, which are read once per `tokens_at_once` tokens.
template <class T>
__global__ void multiply_lines(const GridLinear a) {
  begin_kernel();
  const GridLines& w = a.weight;
  const int lane = static_cast<int>(threadIdx.x);
  const std::int64_t token = static_cast<std::int64_t>(blockIdx.y) * tokens_at_once, bytes_of_line = w.line_bytes();
  for (std::int64_t line = first_warp(); line < w.lines; line += warp_stride()) {
    const std::uint8_t* bytes = w.bytes + line * bytes_of_line;
    float sum[tokens_at_once] = {};
    for (std::int64_t at = lane; at - lane < w.numbers; at += grid_block) {
      const float number = at < w.numbers ? grid_number(w.grid, w.block(bytes, at / grid_block), lane) : 0;
      for (int t = 0; t < tokens_at_once; ++t)
        if (token + t < a.tokens && at < w.numbers)
          sum[t] = fmaf(to_float(static_cast<const T*>(a.x)[(token + t) * a.ldx + at]), number, sum[t]);
    }
    for (int t = 0; t < tokens_at_once; ++t) {
      const float all = sum_of_warp(sum[t]);
      if (lane != t || token + t >= a.tokens) continue;
      T& y = static_cast<T*>(a.y)[(token + t) * a.ldy + line];
      float value = a.accumulate ? all + to_float(y) : all;
      if (a.bias) value += static_cast<const float*>(a.bias)[line];
      y = to_element<T>(activate<float>(a.activation, value));
    }
  }
}

template <class T>
__global__ void unpack_lines(const GridLines w, T* numbers) {
  begin_kernel();
  const std::int64_t bytes_of_line = w.line_bytes(), blocks = w.blocks();
  for (std::int64_t i = first_warp(); i < w.lines * blocks; i += warp_stride()) {
    const std::int64_t line = i / blocks, at = i % blocks * grid_block + threadIdx.x;
    const GridBlock block = w.block(w.bytes + line * bytes_of_line, i % blocks);
    if (at < w.numbers)
      numbers[line * w.numbers + at] = to_element<T>(grid_number(w.grid, block, static_cast<int>(threadIdx.x)));
  }
}

template <class T>
__global__ void look_up_lines(const GridEmbedding a) {
  begin_kernel();
  const GridLines& w = a.table;
  T* y = static_cast<T*>(a.y);
  for (std::int64_t b = first_warp(); b < a.bags.bags; b += warp_stride()) {
    const int first = a.bags.offsets ? a.bags.offsets[b] : static_cast<int>(b),
              last = a.bags.offsets ? a.bags.offsets[b + 1] : first + 1;
    for (std::int64_t at = threadIdx.x; at < w.numbers; at += warp_size) {
      float sum = a.accumulate ? to_float(y[b * w.numbers + at]) : 0;
      for (int i = first; i < last; ++i) {
        const std::int32_t id = a.bags.id[i];
        sum += id < 0 || id >= w.lines ? NAN : number_of(w, id, at);
      }
      y[b * w.numbers + at] = to_element<T>(sum);
    }
  }
}

Launch over(std::int64_t count, std::int64_t rows = 1) {
  return {{grid_for(count, warps), static_cast<unsigned>(rows)}, {warp_size, warps}};
}

std::size_t workspace_bytes(const Context& context, const GridLinear& a) {
  if (a.tokens <= few_tokens) return 0;
  Parts parts;
  parts.take<char>(a.weight.lines * a.weight.numbers * static_cast<std::int64_t>(size_of(context.dtype)));
  parts.for_gemm(a.tokens * a.weight.lines);
  return parts.bytes();
}

template <class T>
Status multiply(const Context& context, const GridLinear& a) {
  if (a.tokens <= few_tokens)
    return launch(context, over(a.weight.lines, blocks_for(a.tokens, tokens_at_once)), multiply_lines<T>, a);
  Parts parts(context.workspace);
  T* const numbers = parts.take<T>(a.weight.lines * a.weight.numbers);
  Status status = launch(context, over(a.weight.lines * a.weight.blocks()), unpack_lines<T>, a.weight, numbers);
  if (status != Status::ok) return status;
  Gemm g;
  g.m = a.tokens, g.n = a.weight.lines, g.k = a.weight.numbers, g.in = g.out = context.dtype;
  g.a = a.x, g.lda = a.ldx, g.b = numbers, g.ldb = g.k, g.transpose_b = true, g.c = a.y, g.ldc = a.ldy;
  g.accumulate = a.accumulate;
  status = gemm(context, g, parts.for_gemm(g.m * g.n));
  if (status != Status::ok) return status;
  TallItems<FinishItem<T>> items;
  items.count = 1;
  items.item[0] = {static_cast<const float*>(a.bias), static_cast<T*>(a.y), nullptr, g.n, a.ldy};
  return finish(context, items, a.tokens, a.activation);
}

Status run(const Context& context, const GridLinear& a) {
  return with_element(context, [&](auto element) { return multiply<decltype(element)>(context, a); });
}

Status run(const Context& context, const GridEmbedding& a) {
  return with_element(context, [&]<class T>(T) { return launch(context, over(a.bags.bags), look_up_lines<T>, a); });
}

}  // namespace

void bind(Op<GridLinear>& op) { op.run = run, op.workspace_bytes = workspace_bytes; }
void bind(Op<GridEmbedding>& op) { op.run = run; }

}  // namespace comera::kernels::cuda
