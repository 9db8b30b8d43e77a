#include "lib/tt/kept_matrix.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "lib/tt/data_aware.h"
#include "tests/tt/random_matrix.h"

using namespace comera;
using namespace comera::tt;
using test::random_matrix;

TEST_CASE("kept matrix: the same numbers from memory and from a file") {
  ScratchFile file("");
  const Matrix a = random_matrix(30, 20, 1), other = random_matrix(5, 7, 2);
  for (const KeptMatrix& kept : {KeptMatrix(a), KeptMatrix(a, file)}) {
    CHECK(kept.rows == 30);
    CHECK(kept.columns == 20);
    CHECK(!kept.empty());
    CHECK(kept.get()->values == a.values);
    CHECK(kept.copy().values == a.values);
    CHECK(kept.alike(other).get()->values == other.values);
  }
  const KeptMatrix none;
  CHECK(none.empty());
  CHECK(none.get()->values.empty());
}

TEST_CASE("kept matrix: a file has room for those that are left, and copies share a place") {
  ScratchFile file("");
  const Matrix a = random_matrix(8, 8, 1), b = random_matrix(8, 8, 2);
  const std::uint64_t bytes = 8 * 8 * sizeof(double);
  {
    KeptMatrix first(a, file);
    const KeptMatrix second(b, file), copy = first;
    first = {};
    CHECK(copy.get()->values == a.values);
    CHECK(second.get()->values == b.values);
    CHECK(file.reserve(bytes) == 2 * bytes);
  }
  CHECK(file.reserve(bytes) < 2 * bytes);
  CHECK(file.reserve(bytes) < 2 * bytes);
  CHECK(file.reserve(bytes) == 3 * bytes);
}

TEST_CASE("inverse of a triangle: the same in place of the triangle as beside it") {
  for (const std::int64_t size : {1, 300, 2100}) {
    Matrix l = random_matrix(size, size, 3);
    for (std::int64_t i = 0; i < size; ++i) {
      std::fill(l.row(i) + i + 1, l.row(i) + size, 0.0);
      l(i, i) = 20 + static_cast<double>(size) / 10;
    }
    Matrix expected = identity(size);
    solve_lower(l, expected);
    const double error = squared_distance(inverse_lower(l), expected);
    CHECK(error <= 1e-26 * squared_norm(expected));
  }
}

TEST_CASE("sums over products: those of the whole matrices") {
  for (const std::int64_t rows : {40, 3000}) {
    const Matrix a = random_matrix(rows, 3100, 4), b = random_matrix(rows, 50, 5), c = random_matrix(50, 3100, 6);
    CHECK(dot_of_product(a, b, c) == dot(a, multiply(b, c)));
    Matrix rest = multiply(b, c);
    CHECK(squared_distance(a, rest) == squared_norm(difference(a, rest)));
    const Matrix expected = difference(a, rest);
    subtract_from(a, rest);
    CHECK(rest.values == expected.values);
  }
}

TEST_CASE("losses of a whitened curve: without its factors") {
  const std::int64_t in = 2060, out = 2050;
  Matrix s = identity(in);
  for (std::int64_t i = 0; i < in; ++i) s(i, i) = 1 + static_cast<double>(i % 7);
  const Matrix w = random_matrix(in, out, 7);
  const std::vector<double> losses = whitened_losses(w, s, multiply(s, w)), expected = WhitenedCurve(w, s).losses();
  REQUIRE(losses.size() == expected.size());
  for (std::size_t r = 0; r < losses.size(); r += 50) CHECK(losses[r] == Approx(expected[r]).epsilon(1e-9));
}
