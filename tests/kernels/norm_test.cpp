#include "kernels/norm.h"

#include <catch2/catch.hpp>

#include "tests/kernels/harness/call.h"
#include "tests/kernels/harness/cases.h"

namespace comera::kernels::test {
namespace {

struct Shape {
  std::int64_t tokens, columns;
  NormKind kind = NormKind::layer;
  bool residual = true, shift = true;
  double dropout = 0, output_dropout = 0;
  bool sum_is_x = false, keeps_sum = true, d_sum_in = false, d_sum_is_dy = false, dx_is_d_sum = false, wants_dx = true;
  double epsilon = 1e-5, scale = 1;

  std::string name() const {
    std::string text = kind == NormKind::layer ? "layer" : "rms";
    text += " K=" + std::to_string(tokens) + " N=" + std::to_string(columns) + (residual ? " residual" : "") +
            (shift ? "" : " no shift");
    text += std::string(dropout > 0 ? " dropout" : "") + (output_dropout > 0 ? " output dropout" : "") +
            (sum_is_x ? " in place" : "");
    text +=
        std::string(keeps_sum ? "" : " no sum") + (d_sum_in ? " d_sum_in" : "") + (d_sum_is_dy ? " d_sum is dy" : "");
    return text + (dx_is_d_sum ? " dx is d_sum" : "") + (wants_dx ? "" : " no dx") + (scale != 1 ? " large mean" : "");
  }
  const char* sum_name() const { return sum_is_x || !keeps_sum ? "x" : "sum"; }
  const char* d_sum_name() const { return d_sum_is_dy ? "d_y" : "d_sum"; }
  const char* dx_name() const { return dx_is_d_sum ? d_sum_name() : "d_x"; }
};

NormForward forward_of(const Shape& s, Run& r) {
  NormForward a;
  a.kind = s.kind, a.tokens = s.tokens, a.columns = s.columns, a.epsilon = s.epsilon;
  a.x = r.in("x"), a.residual = s.residual ? r.in("residual") : nullptr;
  a.dropout = r.dropout("drop"), a.output_dropout = r.dropout("output_drop");
  a.gain = r.in("gain"), a.shift = s.shift ? r.in("shift") : nullptr;
  a.sum = s.keeps_sum ? r.out(s.sum_name()) : nullptr;
  a.mean = s.kind == NormKind::layer ? r.out("mean") : nullptr, a.rstd = r.out("rstd"), a.y = r.out("y");
  return a;
}

NormApply apply_of(const Shape& s, Run& r) {
  NormApply a;
  a.kind = s.kind, a.tokens = s.tokens, a.columns = s.columns, a.sum = r.in(s.sum_name());
  a.mean = s.kind == NormKind::layer ? r.in("mean") : nullptr, a.rstd = r.in("rstd");
  a.gain = r.in("gain"), a.shift = s.shift ? r.in("shift") : nullptr;
  a.output_dropout = r.dropout("output_drop"), a.y = r.out("again");
  return a;
}

NormBackward backward_of(const Shape& s, Run& r) {
  NormBackward a;
  a.kind = s.kind, a.tokens = s.tokens, a.columns = s.columns, a.dy = r.in("d_y"), a.sum = r.in(s.sum_name());
  a.mean = s.kind == NormKind::layer ? r.in("mean") : nullptr, a.rstd = r.in("rstd"), a.gain = r.in("gain");
  a.dropout = r.dropout("drop"), a.output_dropout = r.dropout("output_drop");
  a.d_sum_in = s.d_sum_in ? r.in("d_sum_in") : nullptr, a.d_sum = r.out(s.d_sum_name());
  a.dx = s.wants_dx ? r.out(s.dx_name()) : nullptr;
  a.d_gain = r.out("d_gain"), a.d_shift = s.shift ? r.out("d_shift") : nullptr;
  return a;
}

void add_tensors(Case& c, const Shape& s) {
  c.data("x", s.tokens, s.columns)
      .data("residual", s.tokens, s.columns)
      .data("gain", 1, s.columns)
      .data("shift", 1, s.columns);
  for (double& x : c.tensor("x").start) x = static_cast<float>(x + (s.scale - 1));
  c.empty("sum", s.tokens, s.columns).empty("mean", 1, s.tokens).empty("rstd", 1, s.tokens);
  c.empty("y", s.tokens, s.columns).empty("again", s.tokens, s.columns).data("d_y", s.tokens, s.columns);
  c.data("d_sum_in", s.tokens, s.columns).empty("d_sum", s.tokens, s.columns).empty("d_x", s.tokens, s.columns);
  c.data("d_gain", 1, s.columns).data("d_shift", 1, s.columns);
}

Case norm(const Shape& s) {
  Case c(s.name());
  add_tensors(c, s);
  std::vector<std::int64_t> samples;
  for (std::int64_t b = 0; b <= s.tokens / 3; ++b) samples.push_back(11 * b);
  if (s.dropout > 0) c.dropout("drop", s.dropout, 4, samples, 3);
  if (s.output_dropout > 0) c.dropout("output_drop", s.output_dropout, 5, samples, 3);
  c.forward = [s](Run& r) {
    r.call(&Backend::norm_forward, [&] { return forward_of(s, r); });
    r.call(&Backend::norm_apply, [&] { return apply_of(s, r); });
  };
  c.backward = [s](Run& r) { r.call(&Backend::norm_backward, [&] { return backward_of(s, r); }); };
  c.same("y", "again").output("y", "d_y").gradient("gain", "d_gain", true);
  if (s.d_sum_in) c.output(s.sum_name(), "d_sum_in");
  if (s.shift) c.gradient("shift", "d_shift", true);
  if (s.columns == 1) return c;  // the gradient of s consists of cancellation alone
  if (s.residual) c.gradient("residual", s.d_sum_name());
  if (s.wants_dx) c.gradient("x", s.dx_name());
  return c;
}

}  // namespace

static std::vector<Case> norm_cases() {
  std::vector<Case> cases;
  for (NormKind kind : {NormKind::layer, NormKind::rms}) {
    const bool shift = kind == NormKind::layer;
    cases.push_back(norm({.tokens = 5, .columns = 7, .kind = kind, .shift = shift}));
    cases.push_back(
        norm({.tokens = 7, .columns = 24, .kind = kind, .residual = false, .shift = shift, .keeps_sum = false}));
    cases.push_back(
        norm({.tokens = 7, .columns = 33, .kind = kind, .shift = false, .dropout = 0.1, .output_dropout = 0.2}));
    cases.push_back(
        norm({.tokens = 40, .columns = 100, .kind = kind, .shift = shift, .dropout = 0.1, .d_sum_in = true}));
    cases.push_back(norm({.tokens = 6,
                          .columns = 16,
                          .kind = kind,
                          .shift = shift,
                          .dropout = 0.3,
                          .sum_is_x = true,
                          .d_sum_in = true,
                          .d_sum_is_dy = true}));
    cases.push_back(
        norm({.tokens = 6, .columns = 16, .kind = kind, .shift = shift, .d_sum_is_dy = true, .dx_is_d_sum = true}));
    cases.push_back(
        norm({.tokens = 6, .columns = 16, .kind = kind, .shift = shift, .output_dropout = 0.1, .wants_dx = false}));
    cases.push_back(norm({.tokens = 4, .columns = 64, .kind = kind, .shift = shift, .epsilon = 1e-9, .scale = 100}));
    cases.push_back(norm({.tokens = 40, .columns = 768, .kind = kind, .shift = shift}));
    cases.push_back(
        norm({.tokens = 3, .columns = 1030, .kind = kind, .shift = shift, .dropout = 0.1, .output_dropout = 0.2}));
    cases.push_back(
        norm({.tokens = 3, .columns = 4096, .kind = kind, .shift = shift, .dropout = 0.1, .d_sum_in = true}));
    cases.push_back(norm({.tokens = 2100, .columns = 8, .kind = kind, .shift = shift}));
    // On a GPU a row per warp, with several groups of eight per thread.
    for (const std::int64_t columns : {264, 520, 776})
      cases.push_back(norm({.tokens = 1060, .columns = columns, .kind = kind, .shift = shift, .dropout = 0.1}));
    cases.push_back(norm({.tokens = 2, .columns = 1, .kind = kind, .shift = shift}));
  }
  // More columns than the threads of a block can hold in registers.
  cases.push_back(norm({.tokens = 2, .columns = 8200, .dropout = 0.1, .output_dropout = 0.2, .d_sum_in = true}));
  cases.push_back(norm({.tokens = 2, .columns = 8193, .residual = false, .keeps_sum = false, .d_sum_is_dy = true}));
  cases.push_back(norm(
      {.tokens = 1, .columns = 12288, .kind = NormKind::rms, .shift = false, .sum_is_x = true, .dx_is_d_sum = true}));
  return cases;
}

COMERA_TEST_CASES("norm", norm_cases)

// Inputs are small whole numbers, so the sums are exact in any order.
TEST_CASE("norm: sums for gain and shift with several wide rows per block of the CUDA kernel") {
  constexpr std::int64_t tokens = 900, columns = 8201, count = tokens * columns;
  const auto whole = [](std::int64_t i, std::int64_t range) {
    const std::int64_t middle = range / 2;
    return static_cast<float>(i % range - middle);
  };
  cuda::Floats sum(count), dy(count), d_gain(columns, 5), d_shift(columns, -7);
  const cuda::Floats rstd(tokens, 1), mean(tokens, 0), gain(columns, 0);
  for (std::int64_t i = 0; i < count; ++i) sum[i] = whole(i, 7), dy[i] = whole(i + i / columns, 11);
  cuda::Call call(DType::bf16);
  NormBackward a;
  a.tokens = tokens, a.columns = columns, a.dy = call.activations(dy), a.sum = call.activations(sum),
  a.mean = call.f32(mean), a.rstd = call.f32(rstd);
  a.gain = call.f32(gain), a.d_sum = call.activations(dy), a.d_gain = call.f32(d_gain), a.d_shift = call.f32(d_shift);
  call.run(cuda::table().norm_backward, a);
  for (std::int64_t i = 0; i < count; ++i) d_gain[i % columns] += dy[i] * sum[i], d_shift[i % columns] += dy[i];
  CHECK(call.read_f32(a.d_gain, columns) == d_gain);
  CHECK(call.read_f32(a.d_shift, columns) == d_shift);
}

}  // namespace comera::kernels::test
