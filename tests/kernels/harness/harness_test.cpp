// The harness must detect a wrong backend. Each error below is one that a real kernel could have.
#include "tests/kernels/harness/harness.h"

#include <catch2/catch.hpp>
#include <cstring>

#include "kernels/elementwise.h"

namespace comera::kernels::test {
namespace {

Case small_case() {
  Case c("K=3 N=5");
  c.data("x", 3, 5).data("y", 3, 5).integers("index", {2, -1, 0}).empty("rows", 3, 5, 7);
  c.forward = [](Run& r) {
    r.call(&Backend::add_scaled, [&] { return AddScaled{15, 0.3, r.in("x"), r.out("y")}; });
    r.call(&Backend::gather_rows, [&] { return GatherRows{3, 5, r.ints("index"), r.in("x"), 5, r.out("rows")}; });
  };
  return c;
}

std::vector<std::string> problems_of(const Backend& backend) {
  Summary summary;
  const Case c = small_case();
  Run run(c, {"sabotaged", &backend, nullptr, {}}, Representation::f32);
  run.compare_with_reference(&summary);
  run.forward();
  return run.problems();
}

Backend sabotaged(Status (*add)(const Context&, const AddScaled&)) {
  Backend b = reference_backend();
  b.add_scaled.run = add;
  return b;
}

float* y_of(const AddScaled& a) { return static_cast<float*>(a.y); }
Status honest(const Context& context, const AddScaled& a) { return reference_backend().add_scaled.run(context, a); }

TEST_CASE("harness: the reference has no problems") { CHECK(problems_of(reference_backend()).empty()); }

TEST_CASE("harness: wrong results, missing results and writes out of bounds are found") {
  const auto sabotage = GENERATE(
      as<Status (*)(const Context&, const AddScaled&)>{},
      [](const Context& c, const AddScaled& a) {  // five units in the last place
        const Status status = honest(c, a);
        y_of(a)[14] *= 1 + 6e-7f;
        return status;
      },
      [](const Context&, const AddScaled&) { return Status::ok; },
      [](const Context&, const AddScaled&) { return Status::failed; },
      [](const Context& c, const AddScaled& a) {
        y_of(a)[15] = 0;
        return honest(c, a);
      },
      [](const Context& c, const AddScaled& a) {
        y_of(a)[-1] = 0;
        return honest(c, a);
      },
      [](const Context& c, const AddScaled& a) {
        const Status status = honest(c, a);
        static_cast<float*>(const_cast<void*>(a.x))[3] = 0;
        return status;
      },
      [](const Context& c, const AddScaled& a) {
        const Status status = honest(c, a);
        y_of(a)[2] = std::numeric_limits<float>::quiet_NaN();
        return status;
      });
  CHECK_FALSE(problems_of(sabotaged(sabotage)).empty());
}

TEST_CASE("harness: elements that the reference does not write must keep their bytes") {
  Backend b = reference_backend();
  b.gather_rows.run = [](const Context&, const GatherRows& a) {  // uses the row distance of the buffer for y
    std::memset(a.y, 0, 3 * 7 * sizeof(float));
    return Status::ok;
  };
  CHECK_FALSE(problems_of(b).empty());
}

TEST_CASE("harness: an op that a backend lacks is counted") {
  Backend b = reference_backend();
  b.add_scaled.run = nullptr;
  Summary summary;
  const Case c = small_case();
  Run run(c, {"poor", &b, nullptr, {}}, Representation::f32);
  run.compare_with_reference(&summary);
  run.forward();
  CHECK(run.problems().empty());
  CHECK(summary["add_scaled"].missing == 1);
  CHECK(summary["gather_rows"].calls == 1);
}

TEST_CASE("harness: bounds of tracked sums hold for any order of summation") {
  Tracked sum(0);
  float forward = 0, backward = 0;
  double exact = 0;
  for (int i = 0; i < 1000; ++i) {
    const float x = (i % 2 ? -1.0f : 1.0f) / (1 + i), z = (i % 2 ? 1.0f : -1.0f) / (1000 - i);
    sum += Tracked(x, std::abs(x), 0);
    exact += x, forward += x, backward += z;
  }
  const double bound = sum.roundings * 0x1p-24 * sum.magnitude;
  CHECK(std::abs(forward - exact) < bound);
  CHECK(std::abs(backward - exact) < bound);
  CHECK(sum.roundings == 999);
  CHECK(bound < 1e-3);
}

}  // namespace
}  // namespace comera::kernels::test
