// Dense products: the result is cut into tiles fixed by its shape, each computed by one thread over the whole inner dimension.
#include "kernels/linear.h"

#include "kernels/cpu/activation.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/transpose.h"
#include "kernels/cpu/workspace.h"
#include "kernels/thread_pool.h"

namespace comera::kernels::COMERA_CPU {
namespace {

constexpr std::int64_t enough_tiles = 16;
constexpr std::int64_t smallest_tile = 64;       // a multiple of every kernel's block
constexpr std::int64_t small_operand = 1 << 14;  // floats of a right operand that stays in the first-level cache
constexpr std::int64_t group_rows = 64;
constexpr std::int64_t panel = 128;  // columns
constexpr std::int64_t page_floats = 1024;
constexpr std::int64_t largest_groups = 16;
constexpr std::int64_t small_result = 1 << 17;  // floats of a gradient that is summed by groups of rows

// Tiles of a result [m, n]: as large as leaves enough of them.
struct Tiles {
  std::int64_t m, n, rows = 512, columns = 768;

  Tiles(std::int64_t m, std::int64_t n) : m(m), n(n) {
    while (count() < enough_tiles && (rows > smallest_tile || columns > smallest_tile)) (rows >= columns ? rows : columns) /= 2;
    rows = max(rows, smallest_tile);
    columns = max(columns, smallest_tile);
  }
  std::int64_t count() const { return tiles_of(m, rows) * tiles_of(n, columns); }
};

// visit(first row, rows, first column, columns) for every tile.
template <class Visit>
void for_each_tile(const Context& context, std::int64_t m, std::int64_t n, Visit visit) {
  const Tiles tiles(m, n);
  const std::int64_t across = tiles_of(n, tiles.columns);
  parallel_for(context, tiles.count(), [&](std::int64_t tile) {
    const std::int64_t row = tile / across * tiles.rows, column = tile % across * tiles.columns;
    visit(row, min(tiles.rows, m - row), column, min(tiles.columns, n - column));
  });
}

Status run_forward(const Context& context, const LinearForward& a) {
  if (context.dtype != DType::f32) return Status::unsupported_dtype;
  for_each_tile(context, a.tokens, a.out, [&](std::int64_t i, std::int64_t rows, std::int64_t j, std::int64_t columns) {
    float* y = f32(a.y) + i * a.ldy + j;
    const GemmShape shape{rows, columns, a.in, a.ldx, a.out, a.ldy};
    if (a.in * columns <= small_operand) {
      SmallGemm{shape}(f32(a.x) + i * a.ldx, f32(a.weight) + j, y);
    } else {
      large_gemm(shape, f32(a.x) + i * a.ldx, f32(a.weight) + j, false, y);
    }
    if (!a.bias && !a.pre && a.activation == Activation::none) return;
    float* pre = a.pre ? f32(a.pre) + i * a.ldy + j : nullptr;
    with_activation(a.activation, [&](auto act) {
      finish_rows<decltype(act)>({rows, columns}, y, a.ldy, a.bias ? f32(a.bias) + j : nullptr, pre, y, a.ldy);
    });
  });
  return Status::ok;
}

std::int64_t groups_of(std::int64_t tokens) { return max<std::int64_t>(1, min(largest_groups, tiles_of(tokens, group_rows))); }

// total[i] += sum over groups, in their order, of part[group * count + i].
void add_groups(const Context& context, std::int64_t rows, std::int64_t columns, std::int64_t groups, const float* part, float* total,
                std::int64_t ld) {
  parallel_for(context, tiles_of(rows, std::int64_t{32}), [&](std::int64_t tile) {
    for (std::int64_t i = tile * 32; i < min(tile * 32 + 32, rows); ++i)
      for (std::int64_t j = 0; j < columns; j += F::width) {
        const std::int64_t lanes = min<std::int64_t>(F::width, columns - j);
        F sum = load(part + i * columns + j, lanes);
        for (std::int64_t g = 1; g < groups; ++g) sum = sum + load(part + (g * rows + i) * columns + j, lanes);
        store(total + i * ld + j, load(total + i * ld + j, lanes) + sum, lanes);
      }
  });
}

std::size_t backward_workspace(const Context&, const LinearBackward& a) {
  return static_cast<std::size_t>(groups_of(a.tokens) * a.out) * sizeof(float);
}

// dy becomes d_pre, and its column sums are added to d_bias.
void backward_rows(const Context& context, const LinearBackward& a) {
  const std::int64_t groups = groups_of(a.tokens);
  float* part = a.d_bias ? f32(context.workspace) : nullptr;
  parallel_for(context, groups, [&](std::int64_t group) {
    const Range range = part_of(a.tokens, group_rows, groups, group);
    float* sums = part ? part + group * a.out : nullptr;
    if (sums) std::memset(sums, 0, static_cast<std::size_t>(a.out) * sizeof(float));
    float* dy = f32(a.dy) + range.first * a.lddy;
    const float* pre = a.pre ? f32(a.pre) + range.first * a.lddy : nullptr;
    with_activation(a.activation, [&](auto act) {
      start_rows<decltype(act)>({range.last - range.first, a.out}, dy, a.lddy, pre, a.lddy, dy, a.lddy, sums);
    });
  });
  if (part) add_groups(context, 1, a.out, groups, part, f32(a.d_bias), a.out);
}

Status run_backward(const Context& context, const LinearBackward& a) {
  if (context.dtype != DType::f32) return Status::unsupported_dtype;
  if (context.workspace_bytes < backward_workspace(context, a)) return Status::workspace_too_small;
  if (a.d_bias || a.activation != Activation::none) backward_rows(context, a);
  if (!a.dx) return Status::ok;
  for_each_tile(context, a.tokens, a.in, [&](std::int64_t i, std::int64_t rows, std::int64_t j, std::int64_t columns) {
    large_gemm({rows, columns, a.out, a.lddy, a.out, a.lddx, a.accumulate_dx}, f32(a.dy) + i * a.lddy, f32(a.weight) + j * a.out, true,
               f32(a.dx) + i * a.lddx + j);
  });
  return Status::ok;
}

bool by_groups(const Product& a) { return a.in * a.out <= small_result; }
std::size_t product_workspace(const Context&, const Product& a) {
  return by_groups(a) ? static_cast<std::size_t>(groups_of(a.tokens) * a.in * a.out) * sizeof(float) : 0;
}

// part = or += x^T g for some rows. Rows that start a multiple of 4 KiB apart would fall on the same lines of the cache: then columns of
// x pass in contiguous panels.
void product_rows(const Product& a, Range rows, bool accumulate, float* part) {
  const std::int64_t count = rows.last - rows.first;
  if (a.ldx % page_floats != 0)
    return SmallGemm({a.in, a.out, count, a.ldx, a.ldg, a.out, accumulate, true})(f32(a.x) + rows.first * a.ldx, f32(a.g) + rows.first * a.ldg, part);
  alignas(64) float block[group_rows * panel];
  for (std::int64_t j = 0; j < a.in; j += panel) {
    const std::int64_t columns = min(panel, a.in - j);
    copy_block(count, columns, f32(a.x) + rows.first * a.ldx + j, a.ldx, block, columns);
    SmallGemm({columns, a.out, count, columns, a.ldg, a.out, accumulate, true})(block, f32(a.g) + rows.first * a.ldg, part + j * a.out);
  }
}

// Few results of many rows each: groups of rows sum apart, then together.
void product_by_groups(const Context& context, const Product& a) {
  const std::int64_t groups = groups_of(a.tokens);
  float* part = f32(context.workspace);
  parallel_for(context, groups, [&](std::int64_t group) {
    const Range range = part_of(a.tokens, group_rows, groups, group);
    for (std::int64_t row = range.first; row < range.last; row += group_rows)
      product_rows(a, {row, min(row + group_rows, range.last)}, row > range.first, part + group * a.in * a.out);
  });
  add_groups(context, a.in, a.out, groups, part, f32(a.result), a.ld_result);
}

Status run_product(const Context& context, const Product& a) {
  if (context.dtype != DType::f32) return Status::unsupported_dtype;
  if (context.workspace_bytes < product_workspace(context, a)) return Status::workspace_too_small;
  if (a.tokens == 0) return Status::ok;
  if (by_groups(a)) {
    product_by_groups(context, a);
    return Status::ok;
  }
  for_each_tile(context, a.in, a.out, [&](std::int64_t i, std::int64_t rows, std::int64_t j, std::int64_t columns) {
    large_gemm({rows, columns, a.tokens, a.ldx, a.ldg, a.ld_result, true, true}, f32(a.x) + i, f32(a.g) + j, false,
               f32(a.result) + i * a.ld_result + j);
  });
  return Status::ok;
}

Status run_matmul(const Context& context, const MatMul& a) {
  if (context.dtype != DType::f32) return Status::unsupported_dtype;
  for_each_tile(context, a.m, a.n, [&](std::int64_t i, std::int64_t rows, std::int64_t j, std::int64_t columns) {
    large_gemm({rows, columns, a.k, a.lda, a.ldb, a.ldc, a.accumulate, a.transpose_a}, f32(a.a) + (a.transpose_a ? i : i * a.lda),
               f32(a.b) + (a.transpose_b ? j * a.ldb : j), a.transpose_b, f32(a.c) + i * a.ldc + j);
  });
  return Status::ok;
}

}  // namespace

void add_linear(Backend& b) {
  b.linear_forward = {"linear_forward", run_forward};
  b.linear_backward = {"linear_backward", run_backward, backward_workspace};
  b.product = {"product", run_product, product_workspace};
  b.matmul = {"matmul", run_matmul};
}

}  // namespace comera::kernels::COMERA_CPU
