// Dense products, tile by tile (tile_gemm.h), with bias and activation fused to the end of a tile. Gradients with few
// results are summed by groups of rows.
#include "kernels/linear.h"

#include "kernels/cpu/common/few_tokens.h"
#include "kernels/cpu/common/group_product.h"
#include "kernels/cpu/common/tile_gemm.h"
#include "kernels/cpu/ops.h"

namespace comera::kernels::COMERA_CPU {
namespace {

RowProducts row_products(const LinearForward& a) { return {a.tokens, a.in, a.out, f32(a.x), a.ldx, f32(a.weight)}; }

std::size_t forward_workspace(const Context&, const LinearForward& a) {
  return a.tokens <= few_tokens ? static_cast<std::size_t>(row_products(a).floats()) * sizeof(float) : 0;
}

void forward_few(const Context& context, const LinearForward& a) {
  const RowProducts products = row_products(a);
  float* sums = f32(context.workspace);
  multiply_rows(context, products, sums);
  parallel_for(context, products.strips(), [&](std::int64_t strip) {
    const std::int64_t first = strip * products.strip, last = min(first + products.strip, a.out);
    join_groups(products, {first, last}, sums);
    with_activation(a.activation, [&](auto act) {
      finish_rows<decltype(act)>({a.tokens, last - first}, sums + first, a.out, a.bias ? f32(a.bias) + first : nullptr,
                                 a.pre ? f32(a.pre) + first : nullptr, f32(a.y) + first, a.ldy);
    });
  });
}

Status run_forward(const Context& context, const LinearForward& a) {
  if (context.dtype != DType::f32) return Status::unsupported_dtype;
  if (context.workspace_bytes < forward_workspace(context, a)) return Status::workspace_too_small;
  if (a.tokens <= few_tokens) {
    forward_few(context, a);
    return Status::ok;
  }
  const Factors factors{.m = a.tokens,
                        .n = a.out,
                        .k = a.in,
                        .a = f32(a.x),
                        .lda = a.ldx,
                        .transpose_a = false,
                        .b = f32(a.weight),
                        .ldb = a.out,
                        .transpose_b = false};
  for_each_tile(context, factors, [&](const Tile& t, const float* product) {
    const std::int64_t at = t.row * a.ldy + t.column;
    const float* bias = a.bias ? f32(a.bias) + t.column : nullptr;
    float* pre = a.pre ? f32(a.pre) + at : nullptr;
    with_activation(a.activation, [&](auto act) {
      if (a.tokens * a.out >= streamed_from) {
        finish_rows<decltype(act), true>({t.rows, t.columns}, product, largest_tile, bias, pre, f32(a.y) + at, a.ldy);
      } else {
        finish_rows<decltype(act)>({t.rows, t.columns}, product, largest_tile, bias, pre, f32(a.y) + at, a.ldy);
      }
    });
  });
  return Status::ok;
}

Status run_backward(const Context& context, const LinearBackward& a) {
  if (context.dtype != DType::f32) return Status::unsupported_dtype;
  if (context.workspace_bytes < backward_workspace(context, a)) return Status::workspace_too_small;
  if (a.d_bias || a.activation != Activation::none) backward_rows(context, a);
  if (!a.dx) return Status::ok;
  const Factors factors{.m = a.tokens,
                        .n = a.in,
                        .k = a.out,
                        .a = f32(a.dy),
                        .lda = a.lddy,
                        .transpose_a = false,
                        .b = f32(a.weight),
                        .ldb = a.out,
                        .transpose_b = true};
  for_each_tile(context, factors,
                [&](const Tile& t, const float* product) { add_tile(t, product, a.accumulate_dx, f32(a.dx), a.lddx); });
  return Status::ok;
}

// Copies a panel of x and prefetches its rows further down: they are short and far apart, which the processor does not
// foresee.
void copy_panel(std::int64_t rows, std::int64_t columns, const float* x, std::int64_t ldx, float* block) {
  constexpr std::int64_t ahead = 16;  // rows
  for (std::int64_t i = 0; i < rows; ++i, x += ldx, block += columns)
    for (std::int64_t j = 0; j < columns; j += F::width) {
      _mm_prefetch(reinterpret_cast<const char*>(x + ahead * ldx + j), _MM_HINT_T0);
      const std::int64_t lanes = min<std::int64_t>(F::width, columns - j);
      store(block + j, load(x + j, lanes), lanes);
    }
}

Status run_matmul(const Context& context, const MatMul& a) {
  if (context.dtype != DType::f32) return Status::unsupported_dtype;
  if (a.m <= few_tokens && a.transpose_b && !a.transpose_a) {
    multiply_lines(context, {a.m, a.n, a.k, f32(a.a), a.lda, f32(a.b), a.ldb, f32(a.c), a.ldc, a.accumulate});
    return Status::ok;
  }
  const Factors factors{.m = a.m,
                        .n = a.n,
                        .k = a.k,
                        .a = f32(a.a),
                        .lda = a.lda,
                        .transpose_a = a.transpose_a,
                        .b = f32(a.b),
                        .ldb = a.ldb,
                        .transpose_b = a.transpose_b};
  for_each_tile(context, factors,
                [&](const Tile& t, const float* product) { add_tile(t, product, a.accumulate, f32(a.c), a.ldc); });
  return Status::ok;
}

Status run_parameter_product(const Context& context, const ParameterProduct& a) {
  return run_matmul(context, a.product);
}

}  // namespace

std::size_t product_workspace(const Context&, const Product& a) {
  if (!by_groups(a)) return 0;
  Workspace counter(nullptr);
  GroupProductMemory(a, counter);
  return counter.used();
}

Status run_product(const Context& context, const Product& a) {
  if (context.dtype != DType::f32) return Status::unsupported_dtype;
  if (context.workspace_bytes < product_workspace(context, a)) return Status::workspace_too_small;
  if (a.tokens == 0) return Status::ok;
  if (by_groups(a)) {
    Workspace workspace(context.workspace);
    product_by_groups(context, a, GroupProductMemory(a, workspace),
                      [&](std::int64_t row, std::int64_t rows, std::int64_t j, std::int64_t columns, float* block) {
                        copy_panel(rows, columns, f32(a.x) + row * a.ldx + j, a.ldx, block);
                      });
    return Status::ok;
  }
  const Factors factors{.m = a.in,
                        .n = a.out,
                        .k = a.tokens,
                        .a = f32(a.x),
                        .lda = a.ldx,
                        .transpose_a = true,
                        .b = f32(a.g),
                        .ldb = a.ldg,
                        .transpose_b = false};
  for_each_tile(context, factors,
                [&](const Tile& t, const float* product) { add_tile(t, product, true, f32(a.result), a.ld_result); });
  return Status::ok;
}

void bind(Op<LinearForward>& op) { op.run = run_forward, op.workspace_bytes = forward_workspace; }
void bind(Op<LinearBackward>& op) { op.run = run_backward, op.workspace_bytes = backward_workspace; }
void bind(Op<Product>& op) { op.run = run_product, op.workspace_bytes = product_workspace; }
void bind(Op<MatMul>& op) { op.run = run_matmul; }
void bind(Op<ParameterProduct>& op) { op.run = run_parameter_product; }

}  // namespace comera::kernels::COMERA_CPU
