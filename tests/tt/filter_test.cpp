#include "lib/tt/filter.h"

#include <catch2/catch.hpp>

#include "lib/tt/chain.h"
#include "tests/tt/random_matrix.h"

using namespace comera;
using namespace comera::tt;

namespace {

// captured(): the squared norm that a basis captures. most(): the maximum for a basis of that size.
double captured(const Matrix& basis, const Matrix& a, bool of_rows) {
  return squared_norm(of_rows ? multiply(basis, a) : multiply_nt(basis, a));
}
double most(const Matrix& a, std::int64_t count) {
  const Svd s = svd(a);
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i)
    sum += s.values[static_cast<std::size_t>(i)] * s.values[static_cast<std::size_t>(i)];
  return sum;
}

}  // namespace

TEST_CASE("the space is orthonormal, and its gap estimate holds for every tolerance") {
  const Matrix wide = test::random_matrix(300, 700, 1);  // independent entries: no gap anywhere in the spectrum
  for (const bool of_rows : {true, false}) {
    const Matrix a = of_rows ? wide : transposed(wide);
    const double norm = squared_norm(a), best = most(a, 60);
    for (const double tolerance : {0.5, 1e-2, 1e-3}) {
      const LeadingSpace space = leading_space(a, of_rows, 60, tolerance);
      CHECK(relative_error(identity(60), gram_of_rows(space.basis)) <= 1e-13);
      const double lacking = best - captured(space.basis, a, of_rows);
      CHECK(lacking >= -1e-9 * norm);
      CHECK(lacking <= 2 * tolerance * (norm - best));
      CHECK(space.gap >= lacking / 2);  // the missing part has a second-order effect
      CHECK(space.gap <= 3 * lacking + 1e-9 * norm);
    }
  }
}

TEST_CASE("the iteration handles a cluster of equal eigenvalues at the edge and a few large ones") {
  Matrix left = orthonormal_columns(test::random_matrix(300, 300, 3));
  for (std::int64_t i = 0; i < 300; ++i)
    for (std::int64_t j = 0; j < 300; ++j) left(i, j) *= j < 3 ? 30 : j < 120 ? 1 : 0.2;
  const Matrix a = multiply_nt(left, orthonormal_columns(test::random_matrix(500, 300, 4)));
  const LeadingSpace space = leading_space(a, true, 50, 1e-2);
  const double best = most(a, 50);
  CHECK(best - captured(space.basis, a, true) <= 0.02 * (squared_norm(a) - best));
}
