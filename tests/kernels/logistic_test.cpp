#include "kernels/logistic.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "tests/kernels/harness/cases.h"

namespace comera::kernels::test {
namespace {

Case logistic(std::int64_t rows, double scale) {
  Case c("B=" + std::to_string(rows) + " logits times " + std::to_string(static_cast<int>(scale)));
  std::vector<std::int64_t> targets;
  for (std::int64_t k = 0; k < rows; ++k) targets.push_back(k % 7 == 3 ? -1 : k % 3 == 0);
  c.data("z", 1, rows, 0, scale).empty("d_z", 1, rows).integers("targets", targets);
  c.values("loss", {0.25}, Content::wide).values("correct", {2}, Content::f64).values("scale", {0.125}, Content::f64);
  c.forward = [=](Run& r) {
    r.call(&Backend::logistic_loss, [&] {
      return LogisticLoss{rows,
                          r.in("z"),
                          r.ints("targets"),
                          r.doubles("scale"),
                          r.out("loss"),
                          static_cast<double*>(r.out("correct"))};
    });
  };
  c.backward = [=](Run& r) {
    r.call(&Backend::logistic_backward, [&] {
      return LogisticBackward{rows, r.in("z"), r.ints("targets"), r.doubles("scale"), r.out("d_z")};
    });
  };
  return c.output("loss").gradient("z", "d_z");
}

}  // namespace

static std::vector<Case> logistic_cases() { return {logistic(1, 1), logistic(37, 1), logistic(2500, 8)}; }

COMERA_TEST_CASES("logistic", logistic_cases)

TEST_CASE("logistic: large logits give their distance to the target, and no infinity") {
  const float z[] = {500, -500, 500, -500, 0};
  const std::int32_t targets[] = {1, 0, 0, 1, 1};
  double loss = 0, correct = 0, scale = 1;
  for (const Column& column : columns()) {
    if (column.on_device()) continue;
    loss = correct = 0;
    REQUIRE(column.backend->logistic_loss.run({}, {5, z, targets, &scale, &loss, &correct}) == Status::ok);
    CHECK(loss == Approx(1000 + std::log(2.0)));
    CHECK(correct == 2);
  }
}

}  // namespace comera::kernels::test
