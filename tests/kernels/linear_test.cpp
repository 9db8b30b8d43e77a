#include "kernels/linear.h"

#include <catch2/catch.hpp>

#include "tests/kernels/harness/cases.h"

namespace comera::kernels::test {
namespace {

struct Shape {
  std::int64_t tokens, in, out;
  Activation activation = Activation::none;
  bool bias = true, accumulate_dx = false, saves_pre = true, full = false;
  std::int64_t gap = 0;  // between rows

  std::string name() const {
    return "K=" + std::to_string(tokens) + " M=" + std::to_string(in) + " N=" + std::to_string(out) + " " +
           name_of(activation) + (bias ? "" : " no bias") + (accumulate_dx ? " accumulate" : "") +
           (saves_pre ? "" : " pre is y") + (gap ? " gaps" : "");
  }
};

LinearForward forward_of(const Shape& s, Run& r) {
  LinearForward a;
  a.tokens = s.tokens, a.in = s.in, a.out = s.out, a.activation = s.activation;
  a.x = r.in("x"), a.ldx = s.in + s.gap, a.weight = r.in("w"), a.bias = s.bias ? r.in("b") : nullptr;
  a.y = r.out("y"), a.ldy = s.out + s.gap;
  a.pre = s.saves_pre ? r.out("pre") : s.activation == Activation::none ? a.y : nullptr;
  return a;
}

LinearBackward backward_of(const Shape& s, Run& r) {
  LinearBackward a;
  a.tokens = s.tokens, a.in = s.in, a.out = s.out, a.activation = s.activation;
  a.dy = r.out("d_y"), a.lddy = s.out + s.gap, a.pre = s.activation == Activation::none ? nullptr : r.in("pre");
  a.weight = r.in("w"), a.dx = r.out("d_x"), a.lddx = s.in + s.gap, a.accumulate_dx = s.accumulate_dx;
  a.d_bias = s.bias ? r.out("d_b") : nullptr;
  return a;
}

Product weight_gradient_of(const Shape& s, Run& r) {
  Product a;
  a.tokens = s.tokens, a.in = s.in, a.out = s.out;
  a.x = r.in("x"), a.ldx = s.in + s.gap, a.g = r.in("d_y"), a.ldg = s.out + s.gap, a.result = r.out("d_w"),
  a.ld_result = s.out;
  return a;
}

Case layer(const Shape& s) {
  Case c(s.name());
  c.full = s.full;
  c.data("x", s.tokens, s.in, s.in + s.gap)
      .data("w", s.in, s.out)
      .data("b", 1, s.out)
      .data("d_y", s.tokens, s.out, s.out + s.gap);
  c.empty("y", s.tokens, s.out, s.out + s.gap).empty("pre", s.tokens, s.out, s.out + s.gap);
  s.accumulate_dx ? c.data("d_x", s.tokens, s.in, s.in + s.gap) : c.empty("d_x", s.tokens, s.in, s.in + s.gap);
  c.data("d_w", s.in, s.out).data("d_b", 1, s.out);
  c.forward = [s](Run& r) { r.call(&Backend::linear_forward, [&] { return forward_of(s, r); }); };
  c.backward = [s](Run& r) {
    r.call(&Backend::linear_backward, [&] { return backward_of(s, r); });
    r.call(&Backend::product, [&] { return weight_gradient_of(s, r); });
  };
  c.output("y", "d_y").gradient("x", "d_x", s.accumulate_dx).gradient("w", "d_w", true);
  if (s.bias) c.gradient("b", "d_b", true);
  return c;
}

// dx is null in the first layer of a model.
Case layer_without_dx() {
  const Shape s{4, 3, 5, Activation::gelu};
  Case c = layer(s);
  c.name += " no dx";
  c.backward = [s](Run& r) {
    r.call(&Backend::linear_backward, [&] {
      LinearBackward a = backward_of(s, r);
      a.dx = nullptr;
      return a;
    });
  };
  c.gradients.clear();
  c.gradient("b", "d_b", true);
  return c;
}

Case matmul(std::int64_t m, std::int64_t n, std::int64_t k, bool transpose_a, bool transpose_b, bool accumulate,
            std::int64_t gap) {
  Case c("m=" + std::to_string(m) + " n=" + std::to_string(n) + " k=" + std::to_string(k) +
         (transpose_a ? " a^T" : " a") + (transpose_b ? " b^T" : " b") + (accumulate ? " accumulate" : "") +
         (gap ? " gaps" : ""));
  const std::int64_t lda = (transpose_a ? m : k) + gap, ldb = (transpose_b ? k : n) + gap, ldc = n + gap;
  c.data("a", transpose_a ? k : m, transpose_a ? m : k, lda).data("b", transpose_b ? n : k, transpose_b ? k : n, ldb);
  accumulate ? c.data("c", m, n, ldc) : c.empty("c", m, n, ldc);
  c.forward = [=](Run& r) {
    r.call(&Backend::matmul, [&] {
      MatMul a;
      a.m = m, a.n = n, a.k = k, a.transpose_a = transpose_a, a.transpose_b = transpose_b, a.accumulate = accumulate;
      a.a = r.in("a"), a.lda = lda, a.b = r.in("b"), a.ldb = ldb, a.c = r.out("c"), a.ldc = ldc;
      return a;
    });
  };
  return c;
}

Case parameter_product(std::int64_t m, std::int64_t n, std::int64_t k, bool transpose_a, bool transpose_b,
                       bool accumulate) {
  Case c("parameter product " + std::to_string(m) + " x " + std::to_string(n) + " x " + std::to_string(k) +
         (transpose_a ? " a^T" : "") + (transpose_b ? " b^T" : "") + (accumulate ? " +=" : ""));
  c.data("a", transpose_a ? k : m, transpose_a ? m : k).data("b", transpose_b ? n : k, transpose_b ? k : n);
  accumulate ? c.data("c", m, n) : c.empty("c", m, n);
  c.forward = [=](Run& r) {
    r.call(&Backend::parameter_product, [&] {
      MatMul p;
      p.m = m, p.n = n, p.k = k, p.transpose_a = transpose_a, p.transpose_b = transpose_b, p.accumulate = accumulate;
      p.a = r.in("a"), p.lda = transpose_a ? m : k, p.b = r.in("b"), p.ldb = transpose_b ? k : n;
      p.c = r.out("c"), p.ldc = n;
      return ParameterProduct{p};
    });
  };
  return c;
}

void add_matmuls(std::vector<Case>& cases) {
  for (bool transpose_a : {false, true})
    for (bool transpose_b : {false, true})
      for (bool accumulate : {false, true}) {
        cases.push_back(matmul(5, 7, 9, transpose_a, transpose_b, accumulate, 3));
        cases.push_back(matmul(33, 130, 65, transpose_a, transpose_b, accumulate, 0));
      }
  cases.push_back(matmul(1, 1, 1, false, false, false, 0));
  cases.push_back(matmul(64, 1000, 32, false, true, false, 0));
  cases.push_back(matmul(3, 4, 0, false, false, true, 0));
  cases.push_back(matmul(1, 71, 300, false, true, false, 0));
  cases.push_back(matmul(7, 71, 45, false, true, true, 2));
  cases.push_back(parameter_product(5, 300, 64, false, false, false));
  cases.push_back(parameter_product(64, 300, 5, true, false, true));
  cases.push_back(parameter_product(300, 5, 64, false, true, false));
}

}  // namespace

static std::vector<Case> linear_cases() {
  std::vector<Case> cases;
  for (Activation activation : {Activation::none, Activation::gelu, Activation::silu, Activation::tanh}) {
    cases.push_back(layer({.tokens = 5, .in = 7, .out = 9, .activation = activation}));
    cases.push_back(
        layer({.tokens = 33, .in = 20, .out = 17, .activation = activation, .accumulate_dx = true, .gap = 5}));
  }
  cases.push_back(layer({.tokens = 1, .in = 1, .out = 1}));
  cases.push_back(layer({.tokens = 6, .in = 4, .out = 3, .bias = false}));
  cases.push_back(layer({.tokens = 6, .in = 4, .out = 3, .saves_pre = false}));
  cases.push_back(layer({.tokens = 130, .in = 64, .out = 96, .activation = Activation::gelu}));
  cases.push_back(layer({.tokens = 257, .in = 48, .out = 3}));
  cases.push_back(layer({.tokens = 1000, .in = 96, .out = 80, .activation = Activation::gelu, .full = true}));
  cases.push_back(layer({.tokens = 1, .in = 77, .out = 2100, .activation = Activation::silu, .gap = 2}));
  cases.push_back(layer({.tokens = 7, .in = 150, .out = 45, .activation = Activation::gelu, .bias = false}));
  cases.push_back(layer_without_dx());
  add_matmuls(cases);
  return cases;
}

COMERA_TEST_CASES("linear", linear_cases)

}  // namespace comera::kernels::test
