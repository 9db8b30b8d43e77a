// Codes are integers, so every backend must give the bytes of the reference in f32; the bounds of the header are
// checked on the reference.
#include "kernels/group_codes.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <vector>

#include "tests/kernels/harness/placed.h"

namespace comera::kernels::test {
namespace {

using Floats = std::vector<float>;

struct Stored {
  std::vector<std::uint8_t> codes;
  std::vector<std::uint16_t> ranges;
  Floats restored;
};

Stored stored_by(const Column& column, const GroupCodes& shape, const Floats& values, const StepScalars* scalars) {
  const Placed<float> x(column, values), restored(column, Floats(values.size(), NAN));
  const Placed<std::uint8_t> codes(
      column, std::vector<std::uint8_t>(static_cast<std::size_t>(shape.rows * shape.row_bytes()), 0xEE));
  const Placed<std::uint16_t> ranges(
      column, std::vector<std::uint16_t>(static_cast<std::size_t>(2 * shape.rows * shape.groups()), 0xEEEE));
  const Placed<StepScalars> key(column, {scalars ? *scalars : StepScalars()});
  const Context context = context_of(column);
  const GroupQuantise quantise{shape, x.data(), codes.data(), ranges.data(), scalars ? key.data() : nullptr, 7};
  REQUIRE(column.backend->group_quantise.run(context, quantise) == Status::ok);
  const GroupRestore restore{shape, codes.data(), ranges.data(), restored.data()};
  REQUIRE(column.backend->group_restore.run(context, restore) == Status::ok);
  return {codes.read(), ranges.read(), restored.read()};
}

const Column plain{"reference f32", &reference_backend(), nullptr, {}};

// Normal numbers, groups of equal numbers, of zeros of both signs, and of very large and very small ones.
Floats numbers(const GroupCodes& shape) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  Floats x(static_cast<std::size_t>(shape.rows * shape.columns));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::int64_t row = static_cast<std::int64_t>(i) / shape.columns;
    x[i] = row % 6 == 1   ? 0.7f
           : row % 6 == 2 ? (i % 2 ? -0.0f : 0.0f)
           : row % 6 == 3 ? 1e30f * normal(random)
           : row % 6 == 4 ? 1e-30f * normal(random)
           : row % 6 == 5 ? 5 + normal(random)
                          : normal(random);
  }
  return x;
}

const std::vector<GroupCodes> shapes = {{6, 1, 8},   {13, 64, 8},  {12, 65, 8},    {7, 63, 4},    {6, 64, 4},
                                        {6, 129, 4}, {3, 768, 8},  {9, 200, 8},    {100, 768, 4}, {0, 64, 8},
                                        {6, 1, 16},  {13, 65, 16}, {100, 768, 16}, {0, 64, 16}};

// Bounds with the stored ranges of a row and column.
struct Range {
  double least, step;
};
Range range_at(const GroupCodes& shape, const Stored& stored, std::size_t i) {
  const auto row = static_cast<std::int64_t>(i) / shape.columns, column = static_cast<std::int64_t>(i) % shape.columns;
  const auto at = static_cast<std::size_t>(2 * (row * shape.groups() + column / code_group));
  return {bf16_value(stored.ranges[at]), bf16_value(stored.ranges[at + 1])};
}

}  // namespace

TEST_CASE("group_codes: every backend stores the bytes of the reference and restores the same numbers") {
  const StepScalars scalars{.seed = 11, .step = 5};
  for (const Column& column : columns())
    for (const GroupCodes& shape : shapes)
      for (const StepScalars* key : {static_cast<const StepScalars*>(nullptr), &scalars}) {
        CAPTURE(column.name, shape.rows, shape.columns, shape.bits, key != nullptr);
        const Floats x = numbers(shape);
        const Stored wanted = stored_by(plain, shape, x, key);
        for (std::size_t variation = 0; variation <= column.variations.size(); ++variation) {
          if (variation > 0) column.variations[variation - 1]();
          const Stored found = stored_by(column, shape, x, key);
          CHECK(found.codes == wanted.codes);
          CHECK(found.ranges == wanted.ranges);
          CHECK(found.restored == wanted.restored);
        }
      }
}

TEST_CASE("group_codes: the nearest code is at most half a step away, and nothing wraps") {
  for (const GroupCodes& shape : shapes) {
    if (!shape.has_ranges()) continue;
    const Floats x = numbers(shape);
    const Stored stored = stored_by(plain, shape, x, nullptr);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const Range range = range_at(shape, stored, i);
      // Three roundings of float on the way to a code, one on the way back, each relative to the largest term.
      const double size = std::abs(range.least) + range.step * 255, bound = range.step / 2 + 4 * 0x1p-24 * size;
      REQUIRE(std::abs(stored.restored[i] - x[i]) <= bound);
    }
  }
}

// Cases by the format: 8 bits of significand, ties to the even one, overflow to infinity, NaN not to infinity.
TEST_CASE("group_codes: 16 bits hold the nearest bf16, ties to even") {
  const Floats x{1.0f,      1 + 0x1p-8f, 1 + 3 * 0x1p-8f, 1 + 0x1.02p-8f, -1 - 0x1p-8f, 0.0f,
                 -0.0f,     3.4e38f,     -INFINITY,       0x1.01p-130f,   NAN,          std::nanf("0x3FFFFF"),
                 0x1p-140f, 2 - 0x1p-9f};
  const Floats wanted{1.0f,     1.0f,      1 + 0x1p-6f, 1 + 0x1p-7f, -1.0f, 0.0f, 0.0f,
                      INFINITY, -INFINITY, 0x1p-130f,   NAN,         NAN,   0.0f, 2.0f};
  const GroupCodes shape{1, static_cast<std::int64_t>(x.size()), 16};
  for (const Column& column : columns()) {
    CAPTURE(column.name);
    const Stored stored = stored_by(column, shape, x, nullptr);
    for (std::size_t i = 0; i < x.size(); ++i) {
      CAPTURE(i, x[i], stored.restored[i]);
      CHECK((stored.restored[i] == wanted[i] || (std::isnan(wanted[i]) && std::isnan(stored.restored[i]))));
    }
  }
  const GroupCodes many{100, 768, 16};
  const Floats all = numbers(many);
  const Stored stored = stored_by(plain, many, all, nullptr);
  for (std::size_t i = 0; i < all.size(); ++i)
    REQUIRE(std::abs(stored.restored[i] - all[i]) <= 0x1p-8 * std::abs(all[i]));
}

TEST_CASE("group_codes: zeros and subnormal numbers are restored as zeros") {
  Floats x(128, 0.0f);
  for (std::size_t i = 64; i < 128; ++i) x[i] = (i % 2 ? -1e-40f : 1e-40f) * static_cast<float>(i % 5);
  for (const Column& column : columns()) CHECK(stored_by(column, {2, 64, 4}, x, nullptr).restored == Floats(128, 0.0f));
}

// The mean of n roundings has a standard deviation of at most step / (2 sqrt(n)); the bound is five of them, and the
// bias of 16 random bits.
TEST_CASE("group_codes: stochastic rounding is unbiased") {
  const GroupCodes shape{4, 96, 4};
  const Floats x = numbers(shape);
  constexpr int draws = 4000;
  std::vector<double> sums(x.size());
  Stored stored;
  for (int draw = 0; draw < draws; ++draw) {
    const StepScalars scalars{.seed = 2, .step = static_cast<std::uint64_t>(draw)};
    stored = stored_by(plain, shape, x, &scalars);
    for (std::size_t i = 0; i < x.size(); ++i) sums[i] += stored.restored[i];
  }
  for (std::size_t i = 0; i < x.size(); ++i) {
    const Range range = range_at(shape, stored, i);
    const double size = std::abs(range.least) + range.step * 15;
    CAPTURE(i, x[i], range.least, range.step);
    CHECK(std::abs(sums[i] / draws - x[i]) <= range.step * (5 / (2 * std::sqrt(draws)) + 0x1p-17) + 4 * 0x1p-24 * size);
  }
}

}  // namespace comera::kernels::test
