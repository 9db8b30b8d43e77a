#include "kernels/galore.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "tests/kernels/harness/harness.h"
#include "tests/kernels/harness/placed.h"

namespace comera::kernels::test {
namespace {

using Floats = std::vector<float>;

struct Sizes {
  std::int64_t rows, columns, rank;
  std::int64_t small() const { return std::min(rows, columns); }
};

// Vector k of an orthonormal basis: the cosine transform of type 2.
double wave(std::int64_t size, std::int64_t k, std::int64_t i) {
  const double angle = 3.14159265358979323846 * (2.0 * static_cast<double>(i) + 1) * static_cast<double>(k) /
                       (2.0 * static_cast<double>(size));
  return std::cos(angle) * std::sqrt((k == 0 ? 1.0 : 2.0) / static_cast<double>(size));
}

// A gradient with these singular values: number k has wave k on both sides.
Floats gradient_of(const Sizes& s, const std::vector<double>& values) {
  Floats g;
  for (std::int64_t i = 0; i < s.rows; ++i)
    for (std::int64_t j = 0; j < s.columns; ++j) {
      double sum = 0;
      for (std::size_t k = 0; k < values.size(); ++k)
        sum += values[k] * wave(s.rows, static_cast<std::int64_t>(k), i) *
               wave(s.columns, static_cast<std::int64_t>(k), j);
      g.push_back(static_cast<float>(sum));
    }
  return g;
}

struct Result {
  Floats basis;  // [rank, small]
  double epoch = 0;
  bool operator==(const Result&) const = default;
};

constexpr std::int64_t refresh = 10;

GaloreBasis call_of(const Sizes& s, const StepScalars* scalars) {
  GaloreBasis a;
  a.rows = s.rows, a.columns = s.columns, a.rank = s.rank, a.refresh = refresh, a.site = 7, a.scalars = scalars;
  return a;
}

Result basis_of(const Column& column, const Sizes& s, const Floats& gradient, const StepScalars& step,
                const Result& before) {
  const Placed<float> g(column, gradient), basis(column, before.basis);
  const Placed<double> epoch(column, {before.epoch});
  const Placed<StepScalars> scalars(column, {step});
  GaloreBasis a = call_of(s, scalars.data());
  a.gradient = g.data(), a.basis = basis.data(), a.epoch = epoch.data();
  const auto& op = column.backend->galore_basis;
  Context context = context_of(column);
  const std::size_t bytes = op.workspace_bytes ? op.workspace_bytes(context, a) : 0;
  const Placed<std::uint8_t> workspace(column, std::vector<std::uint8_t>(bytes + 1));
  context.workspace = workspace.data(), context.workspace_bytes = bytes;
  REQUIRE(op.run(context, a) == Status::ok);
  return {basis.read(), epoch.read()[0]};
}

Result basis_of(const Column& column, const Sizes& s, const Floats& gradient, const StepScalars& step = {.seed = 4}) {
  return basis_of(column, s, gradient, step, {Floats(static_cast<std::size_t>(s.rank * s.small()), 0.5f)});
}

double dot(const Result& a, const Result& b, const Sizes& s, std::int64_t i, std::int64_t j) {
  double sum = 0;
  for (std::int64_t k = 0; k < s.small(); ++k) sum += double{a.basis[i * s.small() + k]} * b.basis[j * s.small() + k];
  return sum;
}

// The part of vector i of the basis beside wave k, and beside the first `rank` waves.
double beside(const Result& r, const Sizes& s, std::int64_t i, std::int64_t first, std::int64_t last) {
  double rest = 0;
  std::vector<double> left(r.basis.begin() + i * s.small(), r.basis.begin() + (i + 1) * s.small());
  for (std::int64_t k = first; k < last; ++k) {
    double part = 0;
    for (std::int64_t x = 0; x < s.small(); ++x) part += r.basis[i * s.small() + x] * wave(s.small(), k, x);
    for (std::int64_t x = 0; x < s.small(); ++x) left[static_cast<std::size_t>(x)] -= part * wave(s.small(), k, x);
  }
  for (const double x : left) rest += x * x;
  return std::sqrt(rest);
}

// Products in float of `size` terms, in two Gram-Schmidt passes and the last product.
double rounding(const Sizes& s) { return 8 * std::sqrt(static_cast<double>(std::max(s.rows, s.columns))) * 0x1p-24; }

void check_orthonormal(const Result& r, const Sizes& s) {
  for (std::int64_t i = 0; i < s.rank; ++i)
    for (std::int64_t j = 0; j <= i; ++j) CHECK(std::abs(dot(r, r, s, i, j) - (i == j ? 1 : 0)) < 4 * rounding(s));
}

std::vector<double> falling(std::int64_t count, double ratio) {
  std::vector<double> values;
  for (std::int64_t k = 0; k < count; ++k) values.push_back(std::pow(ratio, static_cast<double>(k)));
  return values;
}

}  // namespace

// In the whole space each vector is a singular vector. A gradient of float has an error of 2^-24 per entry, and a
// vector turns by at most that error relative to the gap between singular values (Wedin 1972).
TEST_CASE("galore: in the whole space the basis is the singular vectors") {
  for (const Sizes& s : {Sizes{1, 1, 1}, Sizes{9, 40, 4}, Sizes{40, 9, 4}, Sizes{12, 12, 12}}) {
    const std::vector<double> values = falling(s.small(), 0.7);
    for (const Column& column : columns()) {
      CAPTURE(column.name, s.rows, s.columns);
      const Result r = basis_of(column, s, gradient_of(s, values));
      CHECK(r.epoch == 1);
      check_orthonormal(r, s);
      for (std::int64_t i = 0; i < s.rank; ++i)
        CHECK(beside(r, s, i, i, i + 1) <
              rounding(s) * std::sqrt(static_cast<double>(s.rows)) / (0.3 * values[static_cast<std::size_t>(i)]));
    }
  }
}

// The angle between the random vectors and the first waves is computed from the start itself: with O1 [rank, width] and
// O2 its parts in the first waves and in the others, the tangent is at most |O2| |O1^+| (Halko et al., theorem 9.1),
// and each iteration multiplies it by (s_(rank+1) / s_rank)^2. |O1^+| <= sqrt(rank) / the least distance of a row of O1
// from the span of the others.
TEST_CASE("galore: the error of the subspace is within the bound of the power iteration") {
  for (const Sizes& s : {Sizes{80, 120, 6}, Sizes{120, 80, 6}}) {
    std::vector<double> values = falling(s.small(), 0.99);
    for (std::size_t k = 6; k < values.size(); ++k) values[k] *= 0.5;
    const StepScalars step{.seed = 4};
    const GaloreBasis a = call_of(s, &step);
    const SketchRule rule = rule_of(a);
    std::vector<std::vector<double>> parts(static_cast<std::size_t>(s.small()),
                                           std::vector<double>(static_cast<std::size_t>(a.width())));
    double others = 0;
    for (std::int64_t k = 0; k < s.small(); ++k)
      for (std::int64_t v = 0; v < a.width(); ++v) {
        double& part = parts[static_cast<std::size_t>(k)][static_cast<std::size_t>(v)];
        for (std::int64_t x = 0; x < s.small(); ++x) part += start_entry(rule, v, x) * wave(s.small(), k, x);
        if (k >= s.rank) others += part * part;
      }
    double least = 1e9;
    for (std::int64_t k = 0; k < s.rank; ++k) {
      std::vector<std::vector<double>> rows;  // the others, orthonormal, then row k
      for (std::int64_t j = 0; j <= s.rank; ++j) {
        if (j == k) continue;
        std::vector<double> row = parts[static_cast<std::size_t>(j == s.rank ? k : j)];
        for (int pass = 0; pass < 2; ++pass)
          for (const auto& other : rows) {
            double along = 0;
            for (std::size_t x = 0; x < row.size(); ++x) along += other[x] * row[x];
            for (std::size_t x = 0; x < row.size(); ++x) row[x] -= along * other[x];
          }
        double norm = 0;
        for (const double x : row) norm += x * x;
        norm = std::sqrt(norm);
        if (j == s.rank) least = std::min(least, norm);
        for (double& x : row) x /= norm;
        rows.push_back(row);
      }
    }
    const double tangent = std::sqrt(others) * std::sqrt(static_cast<double>(s.rank)) / least *
                           std::pow(values[6] / values[5], 2 * GaloreBasis::iterations);
    for (const Column& column : columns()) {
      CAPTURE(column.name, s.rows, tangent);
      const Result r = basis_of(column, s, gradient_of(s, values));
      check_orthonormal(r, s);
      // Sines of single vectors; Ritz vectors share the angle of the subspace up to the factor of their own gap.
      for (std::int64_t i = 0; i < s.rank; ++i) CHECK(beside(r, s, i, 0, s.rank) < tangent + 16 * rounding(s));
    }
  }
}

TEST_CASE("galore: directions without a gradient are orthonormal all the same") {
  const Sizes s{20, 30, 6};
  for (const std::int64_t values : {0, 3})
    for (const Column& column : columns()) {
      CAPTURE(column.name, values);
      const Result r = basis_of(column, s, gradient_of(s, falling(values, 0.5)));
      check_orthonormal(r, s);
      for (std::int64_t i = 0; i < values; ++i) CHECK(beside(r, s, i, 0, values) < 1e-5);
    }
}

TEST_CASE("galore: a basis stays for its steps and is not made of a gradient that is not finite") {
  const Sizes s{9, 40, 4};
  const Floats first = gradient_of(s, falling(9, 0.7)), bad(first.size(), NAN);
  Floats second = first;
  for (std::size_t i = 0; i < second.size(); ++i) second[i] *= static_cast<float>(i % 40);
  for (const Column& column : columns()) {
    CAPTURE(column.name);
    const Result none{Floats(36, 0.0f)};
    const auto next = [&](const Floats& gradient, std::uint64_t step, const Result& before, double finite = 1) {
      return basis_of(column, s, gradient, {.seed = 4, .step = step, .finite = finite}, before);
    };
    CHECK(next(bad, 0, none, 0) == none);
    const Result made = next(first, 1, none);  // late, because step 0 made none
    CHECK(made.epoch == 1);
    CHECK(next(second, 9, made) == made);
    const Result renewed = next(second, 10, made);
    CHECK(renewed.epoch == 2);
    CHECK(renewed.basis != made.basis);
    Result turned = made;  // a vector of the other sign
    for (std::size_t i = 9; i < 18; ++i) turned.basis[i] = -turned.basis[i];
    const Result kept = next(first, 10, turned);
    for (std::int64_t i = 0; i < s.rank; ++i) CHECK(std::abs(dot(kept, turned, s, i, i) - 1) < 4 * rounding(s));
    CHECK(next(bad, 20, renewed, 0) == renewed);
  }
}

TEST_CASE("galore: a basis has the same bytes for any number of threads") {
  const Sizes s{150, 200, 40};
  const Floats g = gradient_of(s, falling(150, 0.95));
  for (const Column& column : columns()) {
    if (column.backend == &reference_backend()) continue;
    const Result wanted = basis_of(column, s, g);
    CHECK(basis_of(column, s, g) == wanted);
    for (const auto& variation : column.variations) {
      variation();
      CHECK(basis_of(column, s, g) == wanted);
    }
  }
}

}  // namespace comera::kernels::test
