#include "kernels/elementwise.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "tests/kernels/harness/cases.h"

namespace comera::kernels::test {
namespace {

// Arguments around zero, in the tails and far out, where exponentials overflow in f32.
std::vector<double> arguments(std::int64_t count) {
  std::vector<double> x(count);
  for (std::int64_t i = 0; i < count; ++i) x[i] = static_cast<float>(12.0 * (2.0 * i / count - 1));
  const double special[] = {0, -0.0, 1e-30, -1e-6, 1e-3, 20, -20, 100, -100, 88.5, -88.5, -5.5, 5.5};
  for (std::int64_t i = 0; i < std::min<std::int64_t>(count, 13); ++i) x[i] = static_cast<float>(special[i]);
  return x;
}

Case activation(Activation kind, std::int64_t count, bool in_place) {
  Case c(std::string(name_of(kind)) + " count=" + std::to_string(count) + (in_place ? " in place" : ""));
  c.values("x", arguments(count))
      .empty("y", 1, count)
      .data("d_y", 1, count)
      .empty("d_x", 1, count)
      .values("copy", arguments(count));
  const char *y = in_place ? "copy" : "y", *dx = in_place ? "d_y" : "d_x";
  c.forward = [=](Run& r) {
    r.call(&Backend::activation_forward, [&] {
      return ActivationForward{kind, count, in_place ? r.in(y) : r.in("x"), r.out(y)};
    });
  };
  c.backward = [=](Run& r) {
    r.call(&Backend::activation_backward, [&] {
      return ActivationBackward{kind, count, r.in("x"), r.in("d_y"), r.out(dx)};
    });
  };
  return c.output(y, "d_y").gradient(in_place ? "copy" : "x", dx);
}

Case gated(Activation kind, std::int64_t count, bool in_place) {
  Case c("gated " + std::string(name_of(kind)) + " count=" + std::to_string(count) + (in_place ? " in place" : ""));
  c.values("gate", arguments(count))
      .data("up", 1, count)
      .empty("y", 1, count)
      .data("d_y", 1, count)
      .empty("d_gate", 1, count)
      .empty("d_up", 1, count);
  const char *d_gate = in_place ? "gate" : "d_gate", *d_up = in_place ? "up" : "d_up";
  c.forward = [=](Run& r) {
    r.call(&Backend::gated_forward, [&] { return GatedForward{kind, count, r.in("gate"), r.in("up"), r.out("y")}; });
  };
  c.backward = [=](Run& r) {
    r.call(&Backend::gated_backward, [&] {
      return GatedBackward{kind, count, r.in("gate"), r.in("up"), r.in("d_y"), r.out(d_gate), r.out(d_up)};
    });
  };
  return c.output("y", "d_y").gradient("gate", d_gate).gradient("up", d_up);
}

// gate and up beside each other in one tensor.
Case gated_joined(Activation kind, std::int64_t tokens, std::int64_t columns, bool in_place) {
  Case c("gated joined " + std::string(name_of(kind)) + " K=" + std::to_string(tokens) +
         " N=" + std::to_string(columns) + (in_place ? " in place" : ""));
  c.data("both", tokens, 2 * columns).empty("y", tokens, columns).data("d_y", tokens, columns);
  c.empty("d_both", tokens, 2 * columns);
  const char* d = in_place ? "both" : "d_both";
  const GatedRows rows{columns, 2 * columns};
  c.forward = [=](Run& r) {
    r.call(&Backend::gated_forward, [&] {
      return GatedForward{kind, tokens * columns, r.in("both"), r.in_at("both", columns), r.out("y"), rows};
    });
  };
  c.backward = [=](Run& r) {
    r.call(&Backend::gated_backward, [&] {
      return GatedBackward{kind,        tokens * columns, r.in("both"),         r.in_at("both", columns),
                           r.in("d_y"), r.out(d),         r.out_at(d, columns), rows};
    });
  };
  return c.output("y", "d_y").gradient("both", d);
}

Case dropout(std::int64_t tokens, std::int64_t columns, double probability, std::int64_t tokens_per_sample,
             bool in_place) {
  Case c("dropout K=" + std::to_string(tokens) + " N=" + std::to_string(columns) + " p=" + std::to_string(probability) +
         (in_place ? " in place" : ""));
  c.data("x", tokens, columns).empty("y", tokens, columns).data("d_y", tokens, columns).empty("d_x", tokens, columns);
  std::vector<std::int64_t> samples;
  for (std::int64_t b = 0; b * tokens_per_sample < tokens; ++b)
    samples.push_back(b % 2 ? (std::int64_t{3} << 32) + b : 1000 - b);
  if (probability > 0) c.dropout("drop", probability, 9, samples, tokens_per_sample);
  const char* y = in_place ? "x" : "y";
  c.forward = [=](Run& r) {
    r.call(&Backend::dropout, [&] { return DropoutApply{r.dropout("drop"), tokens, columns, r.in("x"), r.out(y)}; });
  };
  c.backward = [=](Run& r) {
    r.call(&Backend::dropout, [&] {
      return DropoutApply{r.dropout("drop"), tokens, columns, r.in("d_y"), r.out("d_x")};
    });
  };
  return c.output(y, "d_y").gradient("x", "d_x");
}

Case fill(std::int64_t count) {
  Case c("fill count=" + std::to_string(count));
  c.data("x", 1, count);
  c.forward = [](Run& r) { r.call(&Backend::fill, [&] { return Fill{r.out("x"), r.byte_count("x")}; }); };
  return c;
}

Case add_scaled(std::int64_t count, double scale) {
  Case c("add_scaled count=" + std::to_string(count) + " scale=" + std::to_string(scale));
  c.data("x", 1, count).data("y", 1, count);
  c.forward = [=](Run& r) {
    r.call(&Backend::add_scaled, [&] { return AddScaled{count, scale, r.in("x"), r.out("y")}; });
  };
  return c;
}

// If indices are distinct, gather and scatter are each other's gradients.
Case rows(std::int64_t columns, const std::vector<std::int64_t>& index, std::int64_t source_rows, std::int64_t gap) {
  const auto count = static_cast<std::int64_t>(index.size());
  const std::int64_t ld = columns + gap, lddy = columns + 2 * gap;
  Case c("rows N=" + std::to_string(columns) + " count=" + std::to_string(count) + (gap ? " gaps" : ""));
  c.data("x", source_rows, columns, ld)
      .data("d_x", source_rows, columns, ld)
      .empty("y", count, columns)
      .data("d_y", count, columns, lddy);
  c.integers("index", index);
  c.forward = [=](Run& r) {
    r.call(&Backend::gather_rows,
           [&] { return GatherRows{count, columns, r.ints("index"), r.in("x"), ld, r.out("y")}; });
  };
  c.backward = [=](Run& r) {
    r.call(&Backend::scatter_rows,
           [&] { return ScatterRows{count, columns, r.ints("index"), r.in("d_y"), r.out("d_x"), ld, gap ? lddy : 0}; });
  };
  return c.output("y", "d_y").gradient("x", "d_x", true);
}

}  // namespace

static std::vector<Case> elementwise_cases() {
  std::vector<Case> cases;
  for (Activation kind : {Activation::none, Activation::gelu, Activation::silu, Activation::tanh, Activation::gelu_tanh,
                          Activation::relu})
    for (bool in_place : {false, true})
      for (std::int64_t count : {1, 37, 5000}) {
        cases.push_back(activation(kind, count, in_place));
        cases.push_back(gated(kind, count, in_place));
      }
  for (const bool in_place : {false, true}) {
    cases.push_back(gated_joined(Activation::gelu, 5, 37, in_place));
    cases.push_back(gated_joined(Activation::silu, 300, 64, in_place));
  }
  for (double probability : {0.0, 0.1, 0.5, 1.0}) cases.push_back(dropout(13, 37, probability, 4, false));
  cases.push_back(dropout(13, 64, 0.1, 5, true));
  cases.push_back(dropout(200, 100, 0.25, 50, false));
  cases.push_back(dropout(3, 1, 0.5, 1, false));
  for (std::int64_t count : {1, 1000, 70000}) cases.push_back(fill(count));
  cases.push_back(add_scaled(1, 1));
  cases.push_back(add_scaled(1003, -0.3));
  cases.push_back(add_scaled(40000, 1));
  cases.push_back(rows(5, {3, -1, 0, 6}, 7, 3));
  cases.push_back(rows(100, {3, 1, -1, -1, 0, 6, 5}, 9, 0));
  cases.push_back(rows(768, {0, 128, 256, 384}, 400, 0));
  return cases;
}

COMERA_TEST_CASES("elementwise", elementwise_cases)

}  // namespace comera::kernels::test
