#include "lib/tt/output_errors.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "lib/tt/data_aware.h"
#include "tests/tt/random_matrix.h"

using namespace comera::tt;
using namespace comera::test;

namespace {

// The largest singular value of lᵀ lost for a root l of the moment from its eigenvalues.
double largest_value(const Matrix& lost, const Matrix& moment) {
  const SymmetricEigen eigen = symmetric_eigen(moment);
  Matrix image = multiply(eigen.vectors, lost);
  for (std::int64_t i = 0; i < image.rows; ++i)
    for (std::int64_t j = 0; j < image.columns; ++j)
      image(i, j) *= std::sqrt(std::max(0.0, eigen.values[static_cast<std::size_t>(i)]));
  return svd(image).values[0];
}

void check(const Matrix& weight, const Matrix& lost, const Matrix& moment) {
  const OutputErrors errors = errors_of_outputs(weight, lost, moment);
  const double truth = largest_value(lost, moment) / std::sqrt(output_norm(weight, moment));
  CHECK(errors.direction >= truth);
  CHECK(errors.direction <= 1.3 * truth);
  CHECK(errors.share == Approx(output_share(weight, lost, moment)).epsilon(1e-9));
  // The same from parts of the outputs.
  LostOutputs parts(lost.rows);
  const std::int64_t half = lost.columns / 2;
  parts.add(first_columns(lost, half));
  Matrix rest(lost.rows, lost.columns - half);
  for (std::int64_t i = 0; i < rest.rows; ++i) std::copy_n(lost.row(i) + half, rest.columns, rest.row(i));
  parts.add(rest);
  const OutputErrors again = parts.relative_to(output_norm(weight, moment), moment);
  CHECK(again.share == Approx(errors.share).epsilon(1e-9));
  CHECK(again.direction >= truth);
  CHECK(again.direction <= 1.3 * truth);
}

}  // namespace

TEST_CASE("output errors: the bound of the largest eigenvalue is above it, by the n-th root at most") {
  for (const std::int64_t n : {1, 2, 40, 300}) {
    const double most = std::pow(static_cast<double>(n), 1.0 / 16) * (1 + 1e-9);
    const double flat = largest_eigenvalue_bound(identity(n));
    CHECK(flat >= most / (1 + 2e-9));  // all eigenvalues are equal, the worst case
    CHECK(flat <= most);
    for (const double condition : {1.5, 1e3, 1e12}) {
      const Matrix moment = random_moment(n, condition, 3);
      const double truth = symmetric_eigenvalues(moment)[0], bound = largest_eigenvalue_bound(moment);
      CHECK(bound >= truth);
      CHECK(bound <= most * truth);
    }
  }
  Matrix one(30, 30);
  one(7, 7) = 1e-140;
  CHECK(largest_eigenvalue_bound(one) == Approx(1e-140).epsilon(1e-9).margin(0));
  CHECK(largest_eigenvalue_bound(Matrix(5, 5)) == 0);
}

TEST_CASE("output errors: no direction of the outputs has a larger error than the bound") {
  for (const auto& [in, out] : {std::pair{60, 24}, {24, 60}, {33, 33}, {1100, 8}, {8, 1100}, {1, 5}}) {
    INFO(in << " x " << out);
    const Matrix weight = random_matrix(in, out, 1);
    for (const double condition : {1.0, 1e6}) check(weight, random_matrix(in, out, 2), random_moment(in, condition, 3));
    check(weight, decaying_matrix(in, out, 0.7, 4), random_moment(in, 100, 5));
    check(weight, random_matrix(in, out, 2), gram(random_matrix((in + 1) / 2, in, 6)));  // fewer tokens than inputs
  }
}

TEST_CASE("output errors: what the whitened SVD leaves has the first singular value that it cuts") {
  const Matrix weight = random_matrix(50, 40, 1), moment = random_moment(50, 1e5, 2);
  const WhitenedCurve curve(weight, moment);
  const double norm = output_norm(weight, moment);
  for (const std::int64_t rank : {0, 5, 20, 39}) {
    const Pair pair = curve.pair(rank);
    const double next = std::sqrt(
        (curve.losses()[static_cast<std::size_t>(rank)] - curve.losses()[static_cast<std::size_t>(rank) + 1]) / norm);
    const double found =
        errors_of_outputs(weight, difference(weight, multiply(pair.left, pair.right)), moment).direction;
    CHECK(found >= next * (1 - 1e-6));
    CHECK(found <= 1.3 * next);
  }
}

TEST_CASE("output errors: nothing lost is no error, and an output from nothing is infinite") {
  const Matrix weight = random_matrix(6, 4, 1), none(6, 4), moment = random_moment(6, 10, 2);
  CHECK(errors_of_outputs(weight, none, moment).direction == 0);
  CHECK(errors_of_outputs(weight, weight, Matrix(6, 6)).direction == 0);
  CHECK(std::isinf(errors_of_outputs(none, weight, moment).direction));
}
