// Dense linear layer y = act(x W + b) with W [M x N] (in x out), and the product X^T G that computes weight gradients.
#pragma once

#include "kernels/types.h"

namespace comera::kernels {

// y = act(x w + bias); `pre` (optional) receives x w + bias. pre == y is allowed when activation is none.
struct LinearForward {
  std::int64_t tokens = 0, in = 0, out = 0;  // K, M, N
  const void* x = nullptr;                   // [K, M]
  std::int64_t ldx = 0;
  const void* weight = nullptr;  // [M, N], contiguous
  const void* bias = nullptr;    // [N], optional
  Activation activation = Activation::none;
  void* y = nullptr;  // [K, N]
  std::int64_t ldy = 0;
  void* pre = nullptr;  // [K, N] with ldy, optional
};

// d_pre = dy * act'(pre), written over dy if there is an activation; dx = or += d_pre w^T; d_bias += column sums of
// d_pre. The gradient of the weight is a Product of x with d_pre.
struct LinearBackward {
  std::int64_t tokens = 0, in = 0, out = 0;
  void* dy = nullptr;  // [K, N], overwritten by d_pre when activation != none
  std::int64_t lddy = 0;
  const void* pre = nullptr;  // [K, N] with lddy; needed when activation != none
  Activation activation = Activation::none;
  const void* weight = nullptr;
  void* dx = nullptr;  // [K, M], optional
  std::int64_t lddx = 0;
  bool accumulate_dx = false;
  void* d_bias = nullptr;  // [N], optional, accumulated
};

// result += x^T g: the gradient of a weight or of one of its two factors. x [K, M], g [K, N], result [M, N]. The sum
// over tokens is split into tiles that depend on the shape alone. The tiles are added in a fixed order.
struct Product {
  std::int64_t tokens = 0, in = 0, out = 0;
  const void* x = nullptr;
  std::int64_t ldx = 0;
  const void* g = nullptr;
  std::int64_t ldg = 0;
  void* result = nullptr;
  std::int64_t ld_result = 0;
};

// Results of products that a backend may sum by groups of tokens, each with a sum of its own.
constexpr std::int64_t small_product = 1 << 17;

// c = or += a b with optional transposes, for products that are not a layer (tied decoders). a is [m, k], or stored
// transposed [k, m]; b is [k, n] or [n, k].
struct MatMul {
  std::int64_t m = 0, n = 0, k = 0;
  const void* a = nullptr;
  std::int64_t lda = 0;
  bool transpose_a = false;
  const void* b = nullptr;
  std::int64_t ldb = 0;
  bool transpose_b = false;
  void* c = nullptr;
  std::int64_t ldc = 0;
  bool accumulate = false;
};

// The same for matrices of the parameters' type, whatever the activations' type is. All bits of the factors count:
// updates of weights pass through such products.
struct ParameterProduct {
  MatMul product;
};

constexpr double flops(const LinearForward& a) { return 2.0 * a.tokens * a.in * a.out; }
constexpr double flops(const LinearBackward& a) { return a.dx ? 2.0 * a.tokens * a.in * a.out : 0; }
constexpr double flops(const Product& a) { return 2.0 * a.tokens * a.in * a.out; }
constexpr double flops(const MatMul& a) { return 2.0 * a.m * a.n * a.k; }
constexpr double flops(const ParameterProduct& a) { return flops(a.product); }

}  // namespace comera::kernels
