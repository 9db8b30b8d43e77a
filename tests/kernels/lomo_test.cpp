#include "kernels/lomo.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "tests/kernels/harness/cases.h"
#include "tests/kernels/harness/placed.h"

namespace comera::kernels::test {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();

std::vector<double> positive(std::int64_t count, double from) {
  std::vector<double> numbers;
  for (std::int64_t i = 0; i < count; ++i) numbers.push_back(from * (1 + 0.5 * std::sin(static_cast<double>(i))));
  return numbers;
}

std::string sizes_of(std::int64_t rows, std::int64_t columns) {
  return " " + std::to_string(rows) + " x " + std::to_string(columns);
}

// Sums of squares do not cancel: a rounding per term. The mixture adds four.
Case means(std::int64_t rows, std::int64_t columns, std::uint64_t step, double loss = 2) {
  Case c("means" + sizes_of(rows, columns) + " step " + std::to_string(step));
  c.data("gradient", rows, columns).bytes("scalars", StepScalars{.step = step});
  c.values("row", positive(rows, 0.3), Content::f64).values("column", positive(columns, 0.4), Content::f64);
  c.values("loss", {loss}, Content::f64).values("applied", {3}, Content::f64);
  for (const char* name : {"row", "column", "applied"})
    c.tensor(name).f64_roundings = static_cast<double>(rows * columns) + 8;
  c.forward = [=](Run& r) {
    r.call(&Backend::adalomo_means, [&] {
      AdaLomoMeans a;
      a.rows = rows, a.columns = columns, a.gradient = r.in("gradient"), a.scalars = r.scalars("scalars");
      a.loss = r.doubles("loss"), a.applied = static_cast<double*>(r.out("applied"));
      a.row = static_cast<double*>(r.out("row")), a.column = static_cast<double*>(r.out("column"));
      return a;
    });
  };
  return c;
}

// The scale of a column is rounded to float before its product: two roundings of 2^-24 in each of the terms, 2^29 of
// those to double each.
Case factors(std::int64_t rows, std::int64_t columns, double threshold, double applied = 3) {
  Case c("factors" + sizes_of(rows, columns) + " threshold " + std::to_string(threshold));
  c.data("gradient", rows, columns).data("value", rows, columns, 0, 0.02);
  c.values("row", positive(rows, 0.3), Content::f64).values("column", positive(columns, 0.4), Content::f64);
  c.values("loss", {2}, Content::f64).values("applied", {applied}, Content::f64);
  c.bytes("group", AdamwScalars{.learning_rate = 0.5, .weight_decay = 0.3});
  c.values("factors", {nan, nan}, Content::f64);
  c.tensor("factors").f64_roundings = static_cast<double>(rows * columns) + 16 + 2 * 0x1p29;
  c.forward = [=](Run& r) {
    r.call(&Backend::adalomo_factors, [&] {
      AdaLomoFactors a;
      a.rows = rows, a.columns = columns, a.threshold = threshold;
      a.row = r.doubles("row"), a.column = r.doubles("column");
      a.gradient = r.in("gradient"), a.value = r.in("value");
      a.loss = r.doubles("loss"), a.applied = r.doubles("applied");
      a.group = static_cast<const AdamwScalars*>(r.in("group")), a.factors = static_cast<double*>(r.out("factors"));
      return a;
    });
  };
  return c;
}

Case add(std::int64_t rows, std::int64_t columns, bool scaled, double factor = -0.37) {
  Case c("add" + sizes_of(rows, columns) + (scaled ? " scaled" : "") + (factor == 0 ? " nothing" : ""));
  c.data("gradient", rows, columns).data("value", rows, columns);
  if (factor == 0) c.tensor("gradient").start.assign(static_cast<std::size_t>(rows * columns), nan);
  c.values("row", positive(rows, 0.3), Content::f64).values("column", positive(columns, 0.4), Content::f64);
  c.values("factors", {0.93, factor}, Content::f64);
  c.forward = [=](Run& r) {
    r.call(&Backend::lomo_add, [&] {
      LomoAdd a{.rows = rows, .columns = columns, .factors = r.doubles("factors")};
      if (scaled) a.row = r.doubles("row"), a.column = r.doubles("column");
      a.gradient = r.in("gradient"), a.value = r.out("value");
      return a;
    });
  };
  return c;
}

Case lomo(double clip, double square, double loss, double applied) {
  Case c("lomo clip " + std::to_string(clip) + " square " + std::to_string(square) + " loss " + std::to_string(loss) +
         " applied " + std::to_string(applied));
  c.values("square", {square}, Content::f64).values("loss", {loss}, Content::f64);
  c.values("applied", {applied}, Content::f64).values("factors", {nan, nan}, Content::f64);
  c.bytes("group", AdamwScalars{.learning_rate = 0.5, .weight_decay = 0.3});
  c.tensor("factors").f64_roundings = 4;  // a root, a quotient, two products
  c.forward = [=](Run& r) {
    r.call(&Backend::lomo_factors, [&] {
      LomoFactors a;
      a.clip = clip, a.square = r.doubles("square"), a.loss = r.doubles("loss");
      a.group = static_cast<const AdamwScalars*>(r.in("group"));
      a.applied = static_cast<double*>(r.out("applied")), a.factors = static_cast<double*>(r.out("factors"));
      return a;
    });
  };
  return c;
}

std::vector<Case> lomo_cases() {
  std::vector<Case> cases = {means(1, 1, 0),       means(7, 300, 0),      means(300, 7, 5),    means(65, 64, 5),
                             means(3, 70, 5, nan), factors(1, 1, 1),      factors(7, 300, 1),  factors(300, 7, 1),
                             factors(65, 64, 1e9), factors(9, 9, 1, nan), add(1, 1, true),     add(7, 300, true),
                             add(300, 7, true),    add(65, 64, false),    add(65, 64, true, 0)};
  cases.push_back(lomo(0, 9, 2, 1));
  cases.push_back(lomo(4, 9, 2, 1));
  cases.push_back(lomo(2, 9, 2, 1));
  cases.push_back(lomo(2, 0, 2, 1));
  cases.push_back(lomo(2, infinity, 2, 1));
  cases.push_back(lomo(2, 9, nan, 1));
  cases.push_back(lomo(2, 9, 2, infinity));
  return cases;
}

struct Two {
  double own, by, applied;
};

Two lomo_of(const Column& column, double clip, double square, double loss, double applied) {
  const Placed<double> numbers(column, {square, loss, applied, nan, nan});
  const Placed<AdamwScalars> group(column, {{.learning_rate = 0.5, .weight_decay = 0.3}});
  double* at = numbers.data();
  REQUIRE(column.backend->lomo_factors.run(context_of(column), {clip, at, at + 1, group.data(), at + 2, at + 3}) ==
          Status::ok);
  return {numbers.read()[3], numbers.read()[4], numbers.read()[2]};
}

}  // namespace

TEST_CASE("lomo: every backend within the derived bound of the reference") { check_backends(lomo_cases()); }
TEST_CASE("lomo: the same bytes again and for any number of threads") { check_repeat(lomo_cases()); }

TEST_CASE("lomo: a gradient is shortened to the clip, and nothing changes after one that is not finite") {
  for (const Column& column : columns()) {
    CAPTURE(column.name);
    const Two plain = lomo_of(column, 0, 9, 2, 1), clipped = lomo_of(column, 2, 9, 2, 1);
    CHECK(plain.own == 0.85);
    CHECK(plain.by == -0.5);
    CHECK(plain.applied == 10);
    CHECK(clipped.own == 0.85);
    CHECK(std::abs(clipped.by + 0.5 * 2 / 3) < 1e-15);
    for (const Two& none :
         {lomo_of(column, 2, infinity, 2, 1), lomo_of(column, 2, 9, nan, 1), lomo_of(column, 2, 9, 2, infinity)}) {
      CHECK(none.own == 1);
      CHECK(none.by == 0);
    }
    CHECK(!std::isfinite(lomo_of(column, 2, infinity, 2, 1).applied));
  }
}

}  // namespace comera::kernels::test
