#include "kernels/apollo.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "tests/kernels/harness/cases.h"
#include "tests/kernels/harness/placed.h"

namespace comera::kernels::test {
namespace {

Case project(std::int64_t rows, std::int64_t columns) {
  Case c("project " + std::to_string(rows) + " x " + std::to_string(columns));
  c.data("gradient", rows, columns).empty("result", 1, rows <= columns ? columns : rows);
  c.bytes("scalars", StepScalars{.seed = 4, .step = 403});
  c.forward = [=](Run& r) {
    r.call(&Backend::apollo_project, [&] {
      ApolloProject a;
      a.rows = rows, a.columns = columns, a.refresh = 200, a.site = 9;
      a.scalars = r.scalars("scalars"), a.gradient = r.in("gradient"), a.result = r.out("result");
      return a;
    });
  };
  return c;
}

Case add(std::int64_t count) {
  Case c("add " + std::to_string(count));
  c.data("x", 1, count).data("y", 1, count).values("factor", {-0.37}, Content::f64);
  c.forward = [=](Run& r) {
    r.call(&Backend::add_by_factor, [&] { return AddByFactor{count, r.doubles("factor"), r.in("x"), r.out("y")}; });
  };
  return c;
}

struct Sizes {
  double factor, last;
};

// |G| = 3 and |R| = 2 before clipping.
Sizes sizes(const Column& column, double direction, double last, const StepScalars& step) {
  const Placed<double> squares(column, {9, 4, direction * direction}), last_size(column, {last}), factor(column, {NAN});
  const Placed<AdamwScalars> group(column, {{.learning_rate = 0.1}});
  const Placed<StepScalars> scalars(column, {step});
  ApolloFactor a;
  a.strength = 10, a.gradient = squares.data(), a.projected = squares.data() + 1, a.direction = squares.data() + 2;
  a.last = last_size.data(), a.factor = factor.data(), a.group = group.data(), a.scalars = scalars.data();
  REQUIRE(column.backend->apollo_factor.run(context_of(column), a) == Status::ok);
  return {factor.read()[0], last_size.read()[0]};
}

}  // namespace

static std::vector<Case> apollo_cases() {
  return {project(1, 1), project(7, 300), project(300, 7), project(64, 64), project(65, 64), add(1), add(70000)};
}

TEST_CASE("apollo: every backend within the derived bound of the reference") { check_backends(apollo_cases()); }
TEST_CASE("apollo: the same bytes again and for any number of threads") { check_repeat(apollo_cases()); }

TEST_CASE("apollo: the size of a step is that of Adam's on the projection, and grows by 1 % at most") {
  const StepScalars plain, clipped{.gradient_scale = 0.5}, diverged{.finite = 0};
  for (const Column& column : columns()) {
    CAPTURE(column.name);
    const auto near = [](double a, double b) { return std::abs(a - b) <= 1e-7 * std::abs(b); };
    // |u| = 10 * 1.5 / 2 * 3; the factor of G is -lr |u| / |G|
    const Sizes first = sizes(column, 1.5, 0, plain);
    CHECK(near(first.last, 22.5));
    CHECK(near(first.factor, -0.1 * 22.5 / 3));
    const Sizes grown = sizes(column, 1.5, 20, plain);
    CHECK(near(grown.last, 20.2));
    CHECK(near(grown.factor, -0.1 * 20.2 / 3));
    CHECK(near(sizes(column, 1.5, 30, plain).last, 22.5));
    // The clipped gradient is 1.5 long, and so is its projection 1.
    CHECK(near(sizes(column, 1.5, 0, clipped).last, 22.5));
    CHECK(near(sizes(column, 1.5, 0, clipped).factor, -0.1 * 22.5 / 3));
    CHECK(sizes(column, 1.5, 20, diverged).factor == 0);
    CHECK(sizes(column, 1.5, 20, diverged).last == 20);
  }
}

}  // namespace comera::kernels::test
