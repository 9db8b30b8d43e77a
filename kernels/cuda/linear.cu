// Dense linear layers and matrix products: gemm() with passes for bias, activation and column sums.
#include "kernels/cuda/common/product.h"
#include "kernels/cuda/common/reduce.h"
#include "kernels/cuda/common/tall.h"
#include "kernels/cuda/ops.h"
#include "kernels/linear.h"

namespace comera::kernels::cuda {
namespace {

std::size_t gemm_alone(std::int64_t results) {
  Parts parts;
  parts.for_gemm(results);
  return parts.bytes();
}

std::size_t workspace_bytes(const Context&, const LinearForward& a) { return gemm_alone(a.tokens * a.out); }
std::size_t workspace_bytes(const Context&, const Product& a) { return gemm_alone(a.in * a.out); }
std::size_t workspace_bytes(const Context&, const MatMul& a) { return gemm_alone(a.m * a.n); }
std::size_t workspace_bytes(const Context&, const ParameterProduct& a) { return gemm_alone(a.product.m * a.product.n); }
std::size_t workspace_bytes(const Context&, const LinearBackward& a) {
  Parts parts;
  parts.take<float>(column_tiles(a.tokens) * a.out);
  parts.for_gemm(a.tokens * a.in);
  return parts.bytes();
}

// y = x w for few outputs, such as a classifier's: the library gives such a product to one slow block. A block computes
// the outputs of a token; each thread adds every 128th product. Many tokens give the library enough blocks.
constexpr int few_outputs = 7, few_threads = 128;  // rows of 8 are aligned
constexpr std::int64_t few_tokens = 4096;

template <class T>
__global__ void __launch_bounds__(few_threads) multiply_few(const LinearForward __grid_constant__ a) {
  begin_kernel();
  constexpr int ahead = 6;  // inputs that are loaded before their products are added
  const int out = static_cast<int>(a.out), t = static_cast<int>(threadIdx.x);
  const T* const w = static_cast<const T*>(a.weight);
  for (std::int64_t token = blockIdx.x; token < a.tokens; token += gridDim.x) {
    const T* const x = static_cast<const T*>(a.x) + token * a.ldx;
    float sum[few_outputs] = {};
    for (std::int64_t first = t; first < a.in; first += ahead * few_threads) {
      T input[ahead], factor[ahead][few_outputs];
#pragma unroll
      for (int u = 0; u < ahead; ++u) {
        const std::int64_t i = first + u * few_threads;
        const bool valid = i < a.in;
        input[u] = valid ? x[i] : T{};
#pragma unroll
        for (int o = 0; o < few_outputs; ++o) factor[u][o] = valid && o < out ? w[i * out + o] : T{};
      }
#pragma unroll
      for (int u = 0; u < ahead; ++u)
#pragma unroll
        for (int o = 0; o < few_outputs; ++o) sum[o] = fmaf(to_float(input[u]), to_float(factor[u][o]), sum[o]);
    }
    sums_of_block(sum);
#pragma unroll
    for (int o = 0; o < few_outputs; ++o)
      if (t == o && o < out) static_cast<T*>(a.y)[token * a.ldy + o] = to_element<T>(sum[o]);
  }
}

template <class T>
Status multiply(const Context& context, const LinearForward& a) {
  if (a.out <= few_outputs && a.tokens <= few_tokens)
    return launch(context, {grid_for(a.tokens, 1), few_threads}, multiply_few<T>, a);
  Gemm g;
  g.m = a.tokens, g.n = a.out, g.k = a.in, g.in = g.out = context.dtype;
  g.a = a.x, g.lda = a.ldx, g.b = a.weight, g.ldb = a.out, g.c = a.y, g.ldc = a.ldy;
  return gemm(context, g, Parts(context.workspace).for_gemm(g.m * g.n));
}

template <class T>
Status forward(const Context& context, const LinearForward& a) {
  const Status status = multiply<T>(context, a);
  if (status != Status::ok) return status;
  TallItems<FinishItem<T>> items;
  items.count = 1;
  items.item[0] = {static_cast<const float*>(a.bias), static_cast<T*>(a.y), static_cast<T*>(a.pre), a.out, a.ldy};
  return finish(context, items, a.tokens, a.activation);
}

template <class T>
Status backward(const Context& context, const LinearBackward& a) {
  Parts parts(context.workspace);
  const bool slopes = a.activation != Activation::none;
  TallItems<SlopeItem<T>> items;
  items.count = 1;
  SlopeItem<T>& o = items.item[0];
  o.dy = static_cast<const T*>(a.dy), o.columns = a.out, o.ld_dy = o.ld_pre = o.ld_d_pre = a.lddy;
  float* const sums = parts.take<float>(column_tiles(a.tokens) * a.out);
  if (slopes) o.pre = static_cast<const T*>(a.pre), o.d_pre = static_cast<T*>(a.dy);
  if (a.d_bias) o.sums = sums, o.d_bias = static_cast<float*>(a.d_bias);
  const Status status = slope(context, items, a.tokens, a.activation);
  if (status != Status::ok || !a.dx) return status;
  Gemm g;
  g.m = a.tokens, g.n = a.in, g.k = a.out, g.in = g.out = context.dtype, g.accumulate = a.accumulate_dx;
  g.a = a.dy, g.lda = a.lddy, g.b = a.weight, g.ldb = a.out, g.transpose_b = true, g.c = a.dx, g.ldc = a.lddx;
  return gemm(context, g, parts.for_gemm(g.m * g.n));
}

Status run(const Context& context, const LinearForward& a) {
  return with_element(context, [&](auto element) { return forward<decltype(element)>(context, a); });
}
Status run(const Context& context, const LinearBackward& a) {
  return with_element(context, [&](auto element) { return backward<decltype(element)>(context, a); });
}

Status run(const Context& context, const Product& a) {
  return with_element(context, [&](auto) {
    return gemm(context, gemm_of(context, a), Parts(context.workspace).for_gemm(a.in * a.out));
  });
}

Gemm gemm_of(const MatMul& a) {
  Gemm g;
  g.m = a.m, g.n = a.n, g.k = a.k, g.accumulate = a.accumulate;
  g.a = a.a, g.lda = a.lda, g.transpose_a = a.transpose_a, g.b = a.b, g.ldb = a.ldb, g.transpose_b = a.transpose_b;
  g.c = a.c, g.ldc = a.ldc;
  return g;
}

Status run(const Context& context, const MatMul& a) {
  return with_element(context, [&](auto) {
    Gemm g = gemm_of(a);
    g.in = g.out = context.dtype;
    return gemm(context, g, Parts(context.workspace).for_gemm(g.m * g.n));
  });
}

Status run(const Context& context, const ParameterProduct& a) {
  Context exact = context;
  exact.tf32 = false;
  return gemm(exact, gemm_of(a.product), Parts(context.workspace).for_gemm(a.product.m * a.product.n));
}

}  // namespace

void bind(Op<LinearForward>& op) { op.run = run, op.workspace_bytes = workspace_bytes; }
void bind(Op<LinearBackward>& op) { op.run = run, op.workspace_bytes = workspace_bytes; }
void bind(Op<Product>& op) { op.run = run, op.workspace_bytes = workspace_bytes; }
void bind(Op<MatMul>& op) { op.run = run, op.workspace_bytes = workspace_bytes; }
void bind(Op<ParameterProduct>& op) { op.run = run, op.workspace_bytes = workspace_bytes; }

}  // namespace comera::kernels::cuda
