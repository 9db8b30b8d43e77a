#include "kernels/direction.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "tests/kernels/harness/call.h"
#include "tests/kernels/harness/cases.h"
#include "tests/kernels/harness/placed.h"

namespace comera::kernels::test {
namespace {

Case average(std::int64_t rows, std::int64_t size) {
  Case c("average " + std::to_string(rows) + " x " + std::to_string(size));
  c.data("x", rows, size).values("v", std::vector<double>(static_cast<std::size_t>(size)));
  // A mean of its own, so that the length of the mean has no cancellation.
  for (double& x : c.tensor("x").start) x = static_cast<float>(x + 2);
  c.forward = [=](Run& r) {
    r.call(&Backend::direction_average, [&] { return DirectionAverage{rows, size, r.in("x"), r.out("v")}; });
  };
  return c;
}

Case lift(std::int64_t groups, std::int64_t size, std::int64_t out, std::int64_t ld) {
  Case c("lift " + std::to_string(groups) + " x " + std::to_string(size) + " x " + std::to_string(out));
  c.data("v", 1, size).data("t", groups, out).data("result", groups * size, out, ld);
  c.forward = [=](Run& r) {
    r.call(&Backend::direction_lift, [&] {
      return DirectionLift{.groups = groups,
                           .size = size,
                           .out = out,
                           .scale = 0.75,
                           .v = r.in("v"),
                           .t = r.in("t"),
                           .result = r.out("result"),
                           .ld_result = ld};
    });
  };
  return c;
}

using Floats = std::vector<float>;

Floats after(const Column& column, const Floats& x, const Floats& start) {
  const Placed<float> rows(column, x), v(column, start);
  const auto size = static_cast<std::int64_t>(start.size());
  const DirectionAverage call{static_cast<std::int64_t>(x.size()) / size, size, rows.data(), v.data()};
  Context context = context_of(column);
  const auto& op = column.backend->direction_average;
  const Placed<double> workspace(column, std::vector<double>(x.size() + 1));
  context.workspace = workspace.data(), context.workspace_bytes = x.size() * sizeof(double);
  REQUIRE((!op.workspace_bytes || op.workspace_bytes(context, call) <= context.workspace_bytes));
  REQUIRE(op.run(context, call) == Status::ok);
  return v.read();
}

}  // namespace

static std::vector<Case> direction_cases() {
  return {average(1, 1),    average(5, 3),    average(700, 8),     average(9000, 24),    average(40, 1030),
          lift(1, 1, 1, 1), lift(3, 5, 7, 9), lift(96, 8, 64, 64), lift(2, 40, 300, 300)};
}

TEST_CASE("direction: every backend within the derived bound of the reference") { check_backends(direction_cases()); }
TEST_CASE("direction: the same bytes again and for any number of threads") { check_repeat(direction_cases()); }

TEST_CASE("direction: the vector is the mean of length 1, once, and stays zero without a mean") {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const Column& column : columns()) {
    CAPTURE(column.name);
    const Floats found = after(column, {1, 6, 5, 2}, {0, 0});  // mean (3, 4)
    CHECK(std::abs(found[0] - 0.6f) <= 0x1p-24f);
    CHECK(std::abs(found[1] - 0.8f) <= 0x1p-24f);
    CHECK(after(column, {1, 6, 5, 2}, {0, -0.5f}) == Floats{0, -0.5f});
    CHECK(after(column, {1, 6, -1, -6}, {0, 0}) == Floats{0, 0});
    CHECK(after(column, {1, infinity}, {0, 0}) == Floats{0, 0});
    CHECK(after(column, {1, NAN}, {0, 0}) == Floats{0, 0});
  }
}

// The numbers are exact in bf16 and the vector is float, so both calls read the same numbers.
TEST_CASE("direction: bf16") {
  const auto found = [&](DType dtype) {
    cuda::Call call(dtype);
    void* const v = call.f32(Floats(12));
    call.run(cuda::backend().direction_average, DirectionAverage{50, 12, call.activations(cuda::numbers(600, 1)), v});
    return call.read_f32(v, 12);
  };
  cuda::on_bf16_backends([&] { CHECK(found(DType::bf16) == found(DType::f32)); });
}

}  // namespace comera::kernels::test
