#include "kernels/tt_linear.h"

#include <catch2/catch.hpp>

#include "kernels/chain.h"
#include "kernels/linear.h"
#include "tests/kernels/harness/cases.h"
#include "tests/kernels/harness/tt_outputs.h"

namespace comera::kernels::test {
namespace {

using Output = OutputShape;

struct Shape {
  std::int64_t tokens, in;
  std::vector<Output> outputs;
  Activation activation = Activation::none;
  bool saves_pre = true, accumulate_dx = false, wants_dx = true, recompute = false, full = false;
  std::int64_t gap = 0;
  bool gives_x = false;   // passed to the backward
  bool in_place = false;  // dx replaces x
  Path path = Path::automatic;

  std::int64_t width() const { return width_of(outputs); }
  std::string name() const {
    std::string text = "K=" + std::to_string(tokens) + " M=" + std::to_string(in);
    for (const Output& o : outputs)
      text += " N=" + std::to_string(o.out) + " R=" + std::to_string(o.rank) + (o.bias ? "" : " no bias");
    return text + " " + name_of(activation) + (saves_pre ? "" : " pre from T1") + (accumulate_dx ? " accumulate" : "") +
           (wants_dx ? "" : " no dx") + (recompute ? " y again" : "") + (gap ? " gaps" : "") +
           (gives_x ? " with x" : "") + (in_place ? " in place" : "") +
           (path == Path::fused     ? " fused"
            : path == Path::library ? " library"
                                    : "");
  }
};

std::string indexed(const char* name, std::size_t i) { return std::string(name).append(std::to_string(i)); }

void describe_outputs(const Shape& s, Run& r, TtOutput* output) {
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < s.outputs.size(); ++i) {
    TtOutput& o = output[i];
    o.out = s.outputs[i].out, o.rank = padded_rank(s.outputs[i].rank), o.offset = offset, o.ldy = o.out + s.gap;
    o.right = r.in(indexed("right", i)), o.bias = s.outputs[i].bias ? r.in(indexed("bias", i)) : nullptr;
    offset += o.rank;
  }
}

TtLinearForward forward_of(const Shape& s, Run& r, bool t1_is_given) {
  TtLinearForward a;
  a.tokens = s.tokens, a.in = s.in, a.width = s.width(), a.activation = s.activation, a.t1 = r.out("t1"),
  a.t1_is_given = t1_is_given;
  if (!t1_is_given) a.x = r.in("x"), a.ldx = s.in + s.gap, a.left = r.in("left");
  a.outputs = static_cast<int>(s.outputs.size()), a.path = s.path;
  describe_outputs(s, r, a.output);
  for (int i = 0; i < a.outputs; ++i) {
    a.output[i].y = r.out(indexed(t1_is_given ? "again" : "y", i));
    a.output[i].pre = s.saves_pre && !t1_is_given ? r.out(indexed("pre", i)) : nullptr;
  }
  return a;
}

TtLinearBackward backward_of(const Shape& s, Run& r) {
  TtLinearBackward a;
  a.tokens = s.tokens, a.in = s.in, a.width = s.width(), a.activation = s.activation;
  a.t1 = r.in("t1"), a.left = r.in("left"), a.u1 = r.out("u1"), a.lddx = s.in + s.gap,
  a.accumulate_dx = s.accumulate_dx;
  if (s.wants_dx) a.dx = r.out("d_x");
  if (s.gives_x) a.x = s.in_place ? a.dx : r.in("x"), a.ldx = s.in + s.gap, a.d_left = r.out("d_left");
  a.outputs = static_cast<int>(s.outputs.size()), a.path = s.path;
  describe_outputs(s, r, a.output);
  for (int i = 0; i < a.outputs; ++i) {
    TtOutput& o = a.output[i];
    o.dy = r.in(indexed("d_y", i)), o.d_right = r.out(indexed("d_right", i));
    o.d_bias = s.outputs[i].bias ? r.out(indexed("d_bias", i)) : nullptr;
    if (s.saves_pre && s.activation != Activation::none) o.pre = const_cast<void*>(r.in(indexed("pre", i)));
  }
  return a;
}

Product left_gradient_of(const Shape& s, Run& r) {
  Product a;
  a.tokens = s.tokens, a.in = s.in, a.out = s.width(), a.x = r.in("x"), a.ldx = s.in + s.gap, a.g = r.in("u1"),
  a.ldg = s.width();
  a.result = r.out("d_left"), a.ld_result = s.width();
  return a;
}

// Columns of the wide left factor and rows of a right factor that pad the rank are zero.
void add_factors(Case& c, const Shape& s) {
  c.data("left", s.in, s.width(), 0, 0.5).data("d_left", s.in, s.width());
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < s.outputs.size(); ++i) {
    const Output& o = s.outputs[i];
    const std::int64_t padded = padded_rank(o.rank);
    c.data(indexed("right", i), padded, o.out, 0, 0.5).data(indexed("d_right", i), padded, o.out);
    std::vector<double>& right = c.tensor(indexed("right", i)).start;
    std::fill(right.begin() + o.rank * o.out, right.end(), 0.0);
    std::vector<double>& left = c.tensor("left").start;
    for (std::int64_t m = 0; m < s.in; ++m)
      std::fill(left.begin() + m * s.width() + offset + o.rank, left.begin() + m * s.width() + offset + padded, 0.0);
    offset += padded;
  }
}

void add_outputs(Case& c, const Shape& s) {
  for (std::size_t i = 0; i < s.outputs.size(); ++i) {
    const std::int64_t n = s.outputs[i].out, ld = n + s.gap;
    c.data(indexed("bias", i), 1, n).data(indexed("d_bias", i), 1, n).data(indexed("d_y", i), s.tokens, n, ld);
    c.empty(indexed("y", i), s.tokens, n, ld)
        .empty(indexed("pre", i), s.tokens, n, ld)
        .empty(indexed("again", i), s.tokens, n, ld);
    c.output(indexed("y", i), indexed("d_y", i)).gradient(indexed("right", i), indexed("d_right", i), true);
    if (s.recompute) c.same(indexed("y", i), indexed("again", i));
    if (s.outputs[i].bias) c.gradient(indexed("bias", i), indexed("d_bias", i), true);
  }
}

Case layer(const Shape& s) {
  Case c(s.name());
  c.full = s.full;
  c.data("x", s.tokens, s.in, s.in + s.gap).empty("t1", s.tokens, s.width()).empty("u1", s.tokens, s.width());
  s.accumulate_dx ? c.data("d_x", s.tokens, s.in, s.in + s.gap) : c.empty("d_x", s.tokens, s.in, s.in + s.gap);
  if (s.in_place) c.tensor("d_x").start = c.tensor("x").start;
  add_factors(c, s);
  add_outputs(c, s);
  c.forward = [s](Run& r) {
    r.call(&Backend::tt_linear_forward, [&] { return forward_of(s, r, false); });
    if (s.recompute) r.call(&Backend::tt_linear_forward, [&] { return forward_of(s, r, true); });
  };
  c.backward = [s](Run& r) {
    r.call(&Backend::tt_linear_backward, [&] { return backward_of(s, r); });
    if (!s.gives_x) r.call(&Backend::product, [&] { return left_gradient_of(s, r); });
  };
  c.gradient("left", "d_left", true);
  if (s.wants_dx) c.gradient("x", "d_x", s.accumulate_dx);
  return c;
}

}  // namespace

// Cases that both paths of a device support.
void add_cases_of(Path path, std::vector<Case>& cases) {
  cases.push_back(layer(
      {.tokens = 37, .in = 24, .outputs = {{40, 17}, {8, 0}, {32, 40, false}}, .accumulate_dx = true, .path = path}));
  cases.push_back(layer({.tokens = 150,
                         .in = 200,
                         .outputs = {{40, 17}},
                         .activation = Activation::gelu,
                         .saves_pre = false,
                         .gives_x = true,
                         .in_place = true,
                         .path = path}));
  cases.push_back(layer({.tokens = 70,
                         .in = 32,
                         .outputs = {{40, 17}},
                         .activation = Activation::gelu,
                         .recompute = true,
                         .path = path}));
  cases.push_back(layer(
      {.tokens = 9, .in = 20, .outputs = {{12, 5}}, .activation = Activation::silu, .saves_pre = false, .path = path}));
  cases.push_back(
      layer({.tokens = 5, .in = 7, .outputs = {{9, 3}}, .gives_x = true, .path = path}));  // fits no fused kernel
  cases.push_back(layer({.tokens = 37,
                         .in = 24,
                         .outputs = {{40, 17}, {8, 0}, {32, 40, false}},
                         .accumulate_dx = true,
                         .gives_x = true,
                         .path = path}));
  // Several slices on both sides, several groups of tokens.
  cases.push_back(layer({.tokens = 300,
                         .in = 160,
                         .outputs = {{272, 30}},
                         .activation = Activation::gelu,
                         .saves_pre = false,
                         .gives_x = true,
                         .path = path}));
  cases.push_back(layer({.tokens = 150,
                         .in = 200,
                         .outputs = {{40, 17}},
                         .activation = Activation::gelu,
                         .saves_pre = false,
                         .gives_x = true,
                         .in_place = true,
                         .path = path}));
  cases.push_back(layer({.tokens = 70,
                         .in = 32,
                         .outputs = {{144, 60}, {40, 17}},
                         .activation = Activation::silu,
                         .saves_pre = false,
                         .gap = 8,
                         .gives_x = true,
                         .path = path}));
  cases.push_back(
      layer({.tokens = 9, .in = 16, .outputs = {{24, 5}}, .wants_dx = false, .gives_x = true, .path = path}));
}

static std::vector<Case> tt_linear_cases() {
  std::vector<Case> cases;
  for (Activation activation : {Activation::none, Activation::gelu, Activation::silu, Activation::tanh})
    for (bool saves_pre : {true, false}) {
      cases.push_back(
          layer({.tokens = 5, .in = 7, .outputs = {{9, 3}}, .activation = activation, .saves_pre = saves_pre}));
      cases.push_back(layer(
          {.tokens = 37, .in = 24, .outputs = {{40, 17}}, .activation = activation, .saves_pre = saves_pre, .gap = 3}));
    }
  cases.push_back(layer({.tokens = 4, .in = 6, .outputs = {{5, 1}}}));
  cases.push_back(layer({.tokens = 1, .in = 1, .outputs = {{1, 1}}}));
  cases.push_back(layer({.tokens = 4, .in = 6, .outputs = {{5, 0}}}));
  cases.push_back(
      layer({.tokens = 4, .in = 6, .outputs = {{5, 0, false}}, .activation = Activation::gelu, .saves_pre = false}));
  cases.push_back(layer(
      {.tokens = 6, .in = 6, .outputs = {{5, 0}, {6, 4}}, .activation = Activation::gelu, .accumulate_dx = true}));
  cases.push_back(
      layer({.tokens = 9, .in = 20, .outputs = {{12, 5}, {12, 16}, {8, 30, false}}, .recompute = true, .gap = 4}));
  cases.push_back(layer({.tokens = 33, .in = 32, .outputs = {{32, 30}, {32, 12}, {32, 20}}, .accumulate_dx = true}));
  cases.push_back(layer({.tokens = 9,
                         .in = 20,
                         .outputs = {{12, 5}, {12, 9}},
                         .activation = Activation::silu,
                         .saves_pre = false,
                         .recompute = true}));
  cases.push_back(layer({.tokens = 9, .in = 20, .outputs = {{12, 5}, {7, 2}, {3, 1}, {30, 18}}}));
  cases.push_back(
      layer({.tokens = 6, .in = 6, .outputs = {{5, 2}}, .activation = Activation::gelu, .wants_dx = false}));
  cases.push_back(
      layer({.tokens = 300, .in = 48, .outputs = {{64, 30}}, .activation = Activation::gelu, .saves_pre = false}));
  for (Path path : {Path::fused, Path::library}) add_cases_of(path, cases);
  // Many tokens. The gradients are left out because smaller cases test them.
  cases.push_back(layer({.tokens = 7690, .in = 4, .outputs = {{4, 2}, {4, 1, false}}, .accumulate_dx = true}));
  cases.back().gradients.clear();
  cases.push_back(layer({.tokens = 15370, .in = 4, .outputs = {{4, 1}}, .activation = Activation::gelu}));
  cases.back().gradients.clear();
  cases.push_back(layer({.tokens = 1024, .in = 256, .outputs = {{256, 30}}, .full = true}));
  return cases;
}

COMERA_TEST_CASES("tt_linear", tt_linear_cases)

}  // namespace comera::kernels::test
