#include "kernels/rotary.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "tests/kernels/harness/cases.h"

namespace comera::kernels::test {
namespace {

Case table(std::int64_t positions, std::int64_t head_size, const RotaryAngles& angles) {
  Case c("table P=" + std::to_string(positions) + " D=" + std::to_string(head_size) +
         " theta=" + std::to_string(angles.theta) + " factor=" + std::to_string(angles.factor));
  c.empty("cosines", positions, head_size / 2).empty("sines", positions, head_size / 2);
  c.forward = [=](Run& r) {
    r.call(&Backend::rotary_table, [&] {
      return RotaryTable{positions, head_size, angles, r.out("cosines"), r.out("sines")};
    });
  };
  return c;
}

Case rotation(const std::vector<std::int64_t>& positions, std::int64_t heads, std::int64_t head_size, bool in_place,
              std::int64_t gap = 0) {
  const auto tokens = static_cast<std::int64_t>(positions.size());
  constexpr std::int64_t longest = 40;
  const std::int64_t half = head_size / 2;
  Case c("K=" + std::to_string(tokens) + " H=" + std::to_string(heads) + " D=" + std::to_string(head_size) +
         (in_place ? " in place" : "") + (gap ? " gaps" : ""));
  const std::int64_t ld = gap > 0 ? heads * head_size + gap : 0;
  std::vector<double> cosines, sines;
  for (std::int64_t p = 0; p < longest; ++p)
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle =
          static_cast<double>(p) * std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(head_size));
      cosines.push_back(static_cast<float>(std::cos(angle)));
      sines.push_back(static_cast<float>(std::sin(angle)));
    }
  c.integers("positions", positions).values("cosines", cosines).values("sines", sines);
  c.data("x", tokens, heads * head_size, ld).empty("y", tokens, heads * head_size, ld);
  c.data("d_y", tokens, heads * head_size, ld).empty("d_x", tokens, heads * head_size, ld);
  const char* y = in_place ? "x" : "y";
  const auto call = [=](Run& r, bool inverse, const char* from, const char* to) {
    r.call(&Backend::rotary, [&] {
      return Rotary{.tokens = tokens,
                    .heads = heads,
                    .head_size = head_size,
                    .positions = r.ints("positions"),
                    .cosines = r.in("cosines"),
                    .sines = r.in("sines"),
                    .inverse = inverse,
                    .x = std::string(from) == to ? r.out(from) : r.in(from),
                    .y = r.out(to),
                    .ld = ld};
    });
  };
  c.forward = [=](Run& r) { call(r, false, "x", y); };
  c.backward = [=](Run& r) { call(r, true, "d_y", "d_x"); };
  return c.output(y, "d_y").gradient("x", "d_x");
}

}  // namespace

static std::vector<Case> rotary_cases() {
  std::vector<Case> cases{table(1, 2, {10000}),
                          table(37, 10, {10000}),
                          table(200, 64, {500000}),
                          table(60, 64, {.theta = 500000, .factor = 8, .kept = -0.3, .kept_by_base = 400}),
                          table(60, 20, {.factor = 4, .kept = 1.5, .kept_by_feature = -0.2, .amplitude = 1.14}),
                          table(60, 8, {.factor = 2, .kept = 0})};
  for (const bool in_place : {false, true}) {
    cases.push_back(rotation({0}, 1, 2, in_place));
    cases.push_back(rotation({0, 1, 2, 39, 0, 1}, 3, 10, in_place));
    cases.push_back(rotation({7, 8, 9, 10, 11}, 2, 48, in_place));
    for (const std::int64_t gap : {7, 48}) cases.push_back(rotation({7, 8, 9, 10, 11}, 2, 48, in_place, gap));
  }
  std::vector<std::int64_t> many;
  for (std::int64_t k = 0; k < 300; ++k) many.push_back(k * 7 % 40);
  cases.push_back(rotation(many, 4, 64, false));
  return cases;
}

COMERA_TEST_CASES("rotary", rotary_cases)

// The product of x at position p and y at position q depends on p - q alone: the property of relative positions.
TEST_CASE("rotary: products of rotated vectors depend on their distance alone") {
  constexpr std::int64_t size = 8;
  double cosines[20 * size / 2], sines[20 * size / 2];
  const Backend& backend = reference_backend();
  const Context context{DType::f64, nullptr, nullptr, 0};
  backend.rotary_table.run(context, RotaryTable{20, size, {}, cosines, sines});
  const auto product = [&](std::int32_t p, std::int32_t q) {
    double x[size], y[size], sum = 0;
    for (std::int64_t i = 0; i < size; ++i)
      x[i] = std::sin(1.0 + static_cast<double>(i)), y[i] = std::cos(2.0 * static_cast<double>(i));
    backend.rotary.run(context, Rotary{.tokens = 1,
                                       .heads = 1,
                                       .head_size = size,
                                       .positions = &p,
                                       .cosines = cosines,
                                       .sines = sines,
                                       .inverse = false,
                                       .x = x,
                                       .y = x});
    backend.rotary.run(context, Rotary{.tokens = 1,
                                       .heads = 1,
                                       .head_size = size,
                                       .positions = &q,
                                       .cosines = cosines,
                                       .sines = sines,
                                       .inverse = false,
                                       .x = y,
                                       .y = y});
    for (std::int64_t i = 0; i < size; ++i) sum += x[i] * y[i];
    return sum;
  };
  CHECK(product(3, 1) == Approx(product(19, 17)).epsilon(1e-13));
  CHECK(std::abs(product(3, 1) - product(3, 2)) > 1e-3);
}

}  // namespace comera::kernels::test
