#include "kernels/norm_output.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "kernels/norm.h"
#include "tests/kernels/harness/call.h"
#include "tests/kernels/harness/cases.h"
#include "tests/kernels/harness/placed.h"

namespace comera::kernels::test {
namespace {

struct Shape {
  std::int64_t tokens, columns;
  bool layer = true, in_place = false;
};

// Gains and shifts in any order, with keys that differ by more than a rounding: gains i / 8 of both signs, among them a
// gain of 0, and shifts of 1.
std::vector<double> gains(std::int64_t columns) {
  std::vector<double> gain(static_cast<std::size_t>(columns));
  for (std::int64_t j = 0; j < columns; ++j)
    gain[static_cast<std::size_t>(j)] = static_cast<double>(j * 7919 % columns) / 8 * (j % 3 == 0 ? -1 : 1);
  return gain;
}

Case norm(const Shape& s) {
  Case c((s.layer ? "layer " : "rms ") + std::to_string(s.tokens) + " x " + std::to_string(s.columns) +
         (s.in_place ? " in place" : ""));
  const std::int64_t picked = picked_columns(s.columns);
  c.data("sum", s.tokens, s.columns).data("y", s.tokens, s.columns).data("mean", 1, s.tokens);
  c.values("gain", gains(s.columns)).values("shift", std::vector<double>(static_cast<std::size_t>(s.columns), 1));
  c.data("rstd", 1, s.tokens).empty("values", s.tokens, picked).empty("restored", s.tokens, s.columns);
  for (double& x : c.tensor("rstd").start) x = static_cast<float>(std::abs(x) + 1);
  c.integers("places", std::vector<std::int64_t>(static_cast<std::size_t>(picked)));
  c.forward = [s](Run& r) {
    r.call(&Backend::norm_pick, [&] {
      NormPick a;
      a.tokens = s.tokens, a.columns = s.columns, a.sum = r.in("sum"), a.gain = r.in("gain");
      a.shift = s.layer ? r.in("shift") : nullptr;
      a.places = static_cast<std::int32_t*>(r.out("places")), a.values = r.out("values");
      return a;
    });
    r.call(&Backend::norm_restore, [&] {
      NormRestore a;
      a.tokens = s.tokens, a.columns = s.columns, a.rstd = r.in("rstd"), a.gain = r.in("gain");
      a.mean = s.layer ? r.in("mean") : nullptr, a.shift = s.layer ? r.in("shift") : nullptr;
      a.places = static_cast<const std::int32_t*>(r.in("places")), a.values = r.in("values");
      a.sum = r.out(s.in_place ? "y" : "restored"), a.y = s.in_place ? a.sum : r.in("y");
      return a;
    });
  };
  return c;
}

using Floats = std::vector<float>;

std::vector<std::int32_t> places_of(const Column& column, const Floats& gain, const Floats& shift) {
  const Placed<float> gains(column, gain), shifts(column, shift), sum(column, gain), values(column, gain);
  const Placed<std::int32_t> places(column, std::vector<std::int32_t>(gain.size(), -1));
  const Placed<float> workspace(column, Floats(2 * gain.size()));
  Context context = context_of(column);
  context.workspace = workspace.data(), context.workspace_bytes = 2 * gain.size() * sizeof(float);
  NormPick call;
  call.tokens = 1, call.columns = static_cast<std::int64_t>(gain.size()), call.sum = sum.data();
  call.gain = gains.data(), call.shift = shift.empty() ? nullptr : shifts.data();
  call.places = places.data(), call.values = values.data();
  REQUIRE(column.backend->norm_pick.run(context, call) == Status::ok);
  std::vector<std::int32_t> found = places.read();
  found.resize(static_cast<std::size_t>(picked_columns(call.columns)));
  return found;
}

}  // namespace

static std::vector<Case> norm_output_cases() {
  std::vector<Case> cases;
  for (const bool layer : {true, false}) {
    cases.push_back(norm({3, 1, layer}));
    cases.push_back(norm({5, 33, layer}));
    cases.push_back(norm({7, 64, layer, true}));
    cases.push_back(norm({60, 768, layer, true}));
    cases.push_back(norm({2, 2100, layer}));
  }
  return cases;
}

TEST_CASE("norm_output: every backend within the derived bound of the reference") {
  check_backends(norm_output_cases());
}
TEST_CASE("norm_output: the same bytes again and for any number of threads") { check_repeat(norm_output_cases()); }

TEST_CASE("norm_output: the columns with the smallest gain relative to the shift are picked, the first of equal ones") {
  using Places = std::vector<std::int32_t>;
  for (const Column& column : columns()) {
    CAPTURE(column.name);
    Floats gain(96, 1), shift(96, 1);  // 3 columns are picked
    CHECK(places_of(column, gain, {}) == Places{0, 1, 2});
    gain[90] = 0.5f, gain[7] = -0.25f, gain[50] = 0;
    CHECK(places_of(column, gain, {}) == Places{7, 50, 90});
    shift[20] = -100, shift[7] = 0;  // 1 / 101 is less than .5 / 1.5; .25 without a shift is not small
    CHECK(places_of(column, gain, shift) == Places{20, 50, 90});
  }
}

// A gain of 0 loses its column: the picked ones come from the input, and the backward of another one is not finite,
// which ends a run with a message.
TEST_CASE("norm_output: a gain of 0 among the columns that are not picked gives a number that is not finite") {
  for (const Column& column : columns()) {
    CAPTURE(column.name);
    const Placed<float> gain(column, Floats{0, 0, 2}), y(column, Floats{0, 0, 6}), rstd(column, {0.5f}),
        values(column, {7}), sum(column, Floats(3)), workspace(column, Floats(3));
    const Placed<std::int32_t> places(column, {0});
    Context context = context_of(column);
    context.workspace = workspace.data(), context.workspace_bytes = 3 * sizeof(float);
    NormRestore call;
    call.tokens = 1, call.columns = 3, call.y = y.data(), call.rstd = rstd.data(), call.gain = gain.data();
    call.places = places.data(), call.values = values.data(), call.sum = sum.data();
    REQUIRE(column.backend->norm_restore.run(context, call) == Status::ok);
    const Floats found = sum.read();
    CHECK(found[0] == 7);
    CHECK_FALSE(std::isfinite(found[1]));
    CHECK(found[2] == 6);
  }
}

// bf16: 7 fraction bits of what is read and written; both calls read the same numbers.
TEST_CASE("norm_output: bf16") {
  constexpr std::int64_t tokens = 9, columns = 40, count = tokens * columns;
  const auto found = [&](DType dtype) {
    cuda::Call call(dtype);
    const void *gain = call.f32(cuda::numbers(columns, 1)), *shift = call.f32(cuda::numbers(columns, 2));
    auto* const places = const_cast<std::int32_t*>(call.ints({0, 0}));
    void* const values = call.activations(Floats(2 * tokens));
    call.run(cuda::backend().norm_pick, NormPick{.tokens = tokens,
                                                 .columns = columns,
                                                 .sum = call.activations(cuda::numbers(count, 3)),
                                                 .gain = gain,
                                                 .shift = shift,
                                                 .places = places,
                                                 .values = values});
    void* const y = call.activations(cuda::numbers(count, 4));
    call.run(cuda::backend().norm_restore, NormRestore{.tokens = tokens,
                                                       .columns = columns,
                                                       .y = y,
                                                       .mean = call.f32(cuda::numbers(tokens, 5)),
                                                       .rstd = call.f32(cuda::numbers(tokens, 6)),
                                                       .gain = gain,
                                                       .shift = shift,
                                                       .places = places,
                                                       .values = values,
                                                       .sum = y});
    return call.read_activations(y, count);
  };
  cuda::on_bf16_backends([&] { CHECK(found(DType::bf16) == cuda::rounded(found(DType::f32))); });
}

}  // namespace comera::kernels::test
