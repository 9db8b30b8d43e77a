#include "lib/tt/tt_svd.h"

#include <catch2/catch.hpp>
#include <limits>

#include "kernels/host/thread_pool.h"
#include "lib/core/error.h"
#include "lib/tt/low_rank.h"
#include "tests/tt/random_matrix.h"

using namespace comera;
using namespace comera::tt;
using test::decaying_matrix;
using test::random_matrix;

namespace {

const double eps = std::numeric_limits<double>::epsilon();

Chain random_train(const Sizes& in_modes, const Sizes& out_modes, const Sizes& ranks, unsigned seed) {
  Chain c;
  c.layout = tt_layout(in_modes, out_modes, ranks);
  for (std::size_t k = 0; k < c.layout.cores(); ++k)
    c.cores.push_back(random_matrix(1, product(c.layout.core_shape(k)), seed + static_cast<unsigned>(k)).values);
  return c;
}

double bound_of(const Fit& fit) {
  double sum = 0;
  for (const double lost : fit.discarded) sum += lost * lost;
  return std::sqrt(sum);
}

double best_loss(const std::vector<double>& singular_values, std::int64_t rank) {
  double sum = 0;
  for (std::size_t i = static_cast<std::size_t>(rank); i < singular_values.size(); ++i)
    sum += singular_values[i] * singular_values[i];
  return sum;
}

}  // namespace

TEST_CASE("a matrix of low TT ranks in CoMERA's order is recovered exactly, by ranks and by tolerance") {
  const Sizes in_modes{4, 3, 5}, out_modes{2, 6}, ranks{1, 3, 6, 4, 2, 1};
  const Matrix w = expand(random_train(in_modes, out_modes, ranks, 1));
  const Fit by_ranks = tt_svd(w, in_modes, out_modes, {ranks, {}, {}});
  CHECK(by_ranks.chain.layout.ranks == ranks);
  CHECK(by_ranks.rel_error <= 1000 * eps);
  const Fit by_tolerance = tt_svd(w, in_modes, out_modes, {{}, 1e-10, {}});
  CHECK(by_tolerance.chain.layout.ranks == ranks);
  CHECK(by_tolerance.rel_error <= 1e-10);
  CHECK(tt_svd(w, in_modes, out_modes, {{1, 3, 6, 3, 2, 1}, {}, {}}).rel_error > 1e-3);
}

TEST_CASE("the error is the root of the sum of squared cuts and stays within the tolerance") {
  const Matrix w = random_matrix(60, 36, 2);
  const Fit fit = tt_svd(w, {5, 4, 3}, {6, 6}, {{1, 4, 9, 14, 5, 1}, {}, {}});
  CHECK(fit.discarded.size() == 4);
  CHECK(fit.rel_error == Approx(relative_error(w, expand(fit.chain))));
  // Successive cuts lose orthogonal parts, so the bound is attained.
  CHECK(fit.rel_error == Approx(bound_of(fit)).epsilon(1e-12));
  for (const double tolerance : {0.7, 0.3, 0.05}) {
    const Fit cut = tt_svd(w, {5, 4, 3}, {6, 6}, {{}, tolerance, {}});
    CHECK(cut.rel_error <= tolerance);
    CHECK(bound_of(cut) <= tolerance);
  }
}

TEST_CASE("a middle rank alone cuts only the middle bond") {
  const Matrix w = random_matrix(24, 30, 3);
  const Fit fit = tt_svd(w, {4, 6}, {5, 6}, {{}, {}, 7});
  CHECK(fit.chain.layout.ranks == Sizes{1, 4, 7, 6, 1});
  CHECK(fit.rel_error * fit.rel_error == Approx(best_loss(svd(w).values, 7) / squared_norm(w)));
}

TEST_CASE("primes, ones and wrong modes") {
  const Matrix w = random_matrix(7, 13, 4);
  CHECK(tt_svd(w, {7}, {13}, {{1, 7, 1}, {}, {}}).rel_error <= 100 * eps);
  CHECK(tt_svd(w, {7, 1}, {1, 13}, {{1, 7, 7, 7, 1}, {}, {}}).rel_error <= 100 * eps);
  const Matrix one(1, 1, {-3.0});
  const Fit fit = tt_svd(one, {1}, {1}, {{1, 1, 1}, {}, {}});
  CHECK(expand(fit.chain)(0, 0) == Approx(-3));
  CHECK(tt_svd(Matrix(4, 4), {2, 2}, {4}, {{}, 0.1, {}}).rel_error == 0);
  CHECK_THROWS_AS(tt_svd(w, {2, 4}, {13}, {{}, 0.1, {}}), InputError);
}

TEST_CASE("Gram and full factorisations agree") {
  const Matrix w = decaying_matrix(90, 60, 0.9, 5);
  const std::vector<double> values = svd(w).values;
  for (const bool turned : {false, true}) {
    const LowRankCurve curve(turned ? transposed(w) : w);
    for (const std::int64_t rank : {0, 1, 10, 59, 60}) {
      CHECK(curve.losses()[static_cast<std::size_t>(rank)] ==
            Approx(best_loss(values, rank)).epsilon(1e-8).margin(1e-14));
      const Pair pair = curve.pair(rank), straight = curve.left_orthonormal(rank);
      const Matrix fitted = multiply(pair.left, pair.right);
      CHECK(squared_norm(difference(turned ? transposed(w) : w, fitted)) ==
            Approx(best_loss(values, rank)).epsilon(1e-8).margin(1e-14));
      CHECK(relative_error(fitted, multiply(straight.left, straight.right)) <= 1000 * eps);
      CHECK(squared_norm(difference(gram(straight.left), identity(rank))) <= 1e-24);
    }
  }
}

TEST_CASE("a spectrum below the resolution of a Gram matrix is computed by the full SVD") {
  const Matrix w = decaying_matrix(40, 30, 0.3, 6);  // down to 7e-16
  const std::vector<double> values = svd(w).values;
  const LowRankCurve curve(w);
  // Squares of singular values, which have an error of 30 eps of the largest value, 1.
  for (std::int64_t rank = 0; rank < 25; ++rank)
    CHECK(std::sqrt(curve.losses()[static_cast<std::size_t>(rank)]) ==
          Approx(std::sqrt(best_loss(values, rank))).epsilon(1e-9).margin(30 * eps));
}

TEST_CASE("the filtered space reaches the optimum within half a percent, its loss is exact, threads change no byte") {
  const Matrix w = decaying_matrix(700, 900, 0.995, 7);  // a flat spectrum, as weights have
  const std::vector<double> values = svd(w).values;
  const LowRankCurve curve(w, 64);
  for (const std::int64_t rank : {8, 64}) {
    const Pair pair = curve.pair(rank);
    const double loss = squared_norm(difference(w, multiply(pair.left, pair.right)));
    CHECK(curve.losses()[static_cast<std::size_t>(rank)] == Approx(loss).epsilon(1e-9));
    CHECK(loss >= best_loss(values, rank) * (1 - 1e-9));
    CHECK(loss <= best_loss(values, rank) * 1.005);
    CHECK(curve.best_loss(rank) <= best_loss(values, rank) * 1.001);
    CHECK(curve.best_loss(rank) >= best_loss(values, rank) * 0.995);
  }
  kernels::ThreadPool pool(2);
  const UsePool use(pool);
  CHECK(LowRankCurve(w, 64).pair(64).right.values == curve.pair(64).right.values);
  const LowRankCurve turned(transposed(w), 64);
  CHECK(turned.losses()[64] == Approx(curve.losses()[64]).epsilon(5e-3));
}

TEST_CASE("weights of low rank and zeros are exact at a rank above theirs") {
  const Matrix w = multiply(random_matrix(700, 20, 71), random_matrix(20, 900, 72));
  const LowRankCurve curve(w, 64);
  REQUIRE(curve.largest_rank() == 64);
  for (const std::int64_t rank : {20, 64}) {
    const Pair pair = curve.pair(rank);
    // Iterated on the weight itself, not on its Gram matrix.
    CHECK(relative_error(w, multiply(pair.left, pair.right)) <= 1e-12);
  }
  const LowRankCurve nothing(Matrix(600, 1200), 8);
  CHECK(nothing.losses()[0] == 0);
  CHECK(squared_norm(multiply(nothing.pair(8).left, nothing.pair(8).right)) == 0);
}

TEST_CASE("the filtered space handles extreme scales and outliers, and low_rank_losses matches the factorisation") {
  Matrix w = decaying_matrix(900, 640, 0.998, 75);
  for (std::int64_t i = 0; i < 900; ++i)
    for (std::int64_t j = 0; j < 640; ++j) w(i, j) = 1e25 * (w(i, j) + (j == 7 ? 3 : 0) + (i == 20 ? 0.5 : 0));
  const std::vector<double> values = svd(w).values, losses = low_rank_losses(w);
  const LowRankCurve curve(w, 100);
  for (const std::int64_t rank : {1, 40, 100}) {
    const Pair pair = curve.pair(rank);
    CHECK(squared_norm(difference(w, multiply(pair.left, pair.right))) <= best_loss(values, rank) * 1.005);
    CHECK(losses[static_cast<std::size_t>(rank)] == Approx(best_loss(values, rank)).epsilon(1e-9));
  }
  CHECK(std::ssize(losses) == 641);
}

TEST_CASE("a balanced chain is the same matrix, with its singular values in equal halves at every bond") {
  Chain c = random_train({4, 6}, {5, 3}, {1, 4, 9, 3, 1}, 8);
  for (std::size_t i = 0; i < c.cores[1].size(); ++i) c.cores[1][i] *= 1e4;  // far from balanced
  const Matrix w = expand(c);
  const auto [balanced, singular_values] = balance_chain(c);
  CHECK(balanced.layout == c.layout);
  CHECK(relative_error(w, expand(balanced)) <= 1e-12);
  const Sizes rows{4, 24, 120};
  for (std::size_t bond = 1; bond < 4; ++bond) {
    const std::int64_t left_rows = rows[bond - 1], rank = c.layout.ranks[bond];
    const Matrix left = merge_cores(balanced, 0, bond), right = merge_cores(balanced, bond, 4);
    const std::vector<double> values = svd(reshaped(w, left_rows, 360 / left_rows)).values;
    for (std::int64_t i = 0; i < rank; ++i) {
      const auto entry = static_cast<std::size_t>(i);
      CHECK(std::abs(singular_values[bond - 1][entry] - values[entry]) <= 1e-10 * values[0]);
    }
    for (const Matrix& half :
         {gram(reshaped(left, left_rows, rank)), gram_of_rows(reshaped(right, rank, 360 / left_rows))})
      for (std::int64_t i = 0; i < rank; ++i)
        for (std::int64_t j = 0; j < rank; ++j)
          CHECK(std::abs(half(i, j) - (i == j ? values[static_cast<std::size_t>(i)] : 0)) <= 1e-10 * values[0]);
  }
  CHECK(balance_chain(random_train({4, 6}, {5, 3}, {1, 7, 9, 3, 1}, 8)).chain.layout.ranks == Sizes{1, 4, 9, 3, 1});
}

TEST_CASE("balancing a chain of zeros or of a lower rank leaves the matrix") {
  Chain zero = random_train({4, 6}, {5, 3}, {1, 4, 9, 3, 1}, 8);
  for (double& number : zero.cores[1]) number = 0;
  CHECK(squared_norm(expand(balance_chain(zero).chain)) == 0);
  Chain low = random_train({4, 6}, {5, 3}, {1, 4, 9, 3, 1}, 8);
  for (std::size_t i = 0; i < low.cores[0].size(); ++i)
    if (i % 4 == 3) low.cores[0][i] = 0;
  const Chain balanced = balance_chain(low).chain;
  CHECK(relative_error(expand(low), expand(balanced)) <= 1e-12);
  for (const std::vector<double>& core : balanced.cores)
    for (const double number : core) CHECK(std::isfinite(number));
}

TEST_CASE("rounding gives the ranks of TT-SVD and keeps a chain that needs no cut") {
  const Sizes in_modes{4, 6}, out_modes{5, 3};
  Chain c = random_train(in_modes, out_modes, {1, 4, 9, 3, 1}, 8);
  const Matrix w = expand(c);
  const Fit same = round_chain(c, {{}, 1e-12, {}});
  CHECK(relative_error(w, expand(same.chain)) <= 1e-12);
  const Truncation cut{{1, 3, 5, 2, 1}, {}, {}};
  const Fit fit = round_chain(c, cut);
  CHECK(fit.chain.layout.ranks == cut.ranks);
  CHECK(fit.rel_error == Approx(relative_error(w, expand(fit.chain))).epsilon(1e-9));
  CHECK(fit.rel_error == Approx(tt_svd(w, in_modes, out_modes, cut).rel_error).epsilon(1e-9));
}

TEST_CASE("a table of low TTM ranks is recovered, with and without padded rows") {
  Chain c;
  const Sizes rows{4, 3, 5}, columns{2, 3, 2}, ranks{1, 4, 3, 1};
  c.layout = ttm_layout(rows, columns, ranks);
  for (std::size_t k = 0; k < 3; ++k)
    c.cores.push_back(random_matrix(1, product(c.layout.core_shape(k)), 40 + static_cast<unsigned>(k)).values);
  const Matrix table = expand(c);
  const Fit fit = ttm_svd(table, rows, columns, {ranks, {}, {}});
  CHECK(fit.rel_error <= 1000 * eps);
  CHECK(fit.chain.layout.ranks == ranks);
  const Matrix fewer = first_rows(table, 53);
  const Fit padded = ttm_svd(fewer, rows, columns, {{}, 1e-9, {}});
  CHECK(padded.rel_error <= 1e-9);
  CHECK(padded.chain.layout.rows() == 60);
  CHECK_THROWS_AS(ttm_svd(table, {3, 3, 5}, {2, 3, 2}, {{}, 0.1, {}}), InputError);
}

TEST_CASE("row weights reduce the error of rows with large weights, at the same ranks") {
  const Matrix table = random_matrix(60, 12, 50);
  std::vector<double> weights(60);
  for (std::size_t i = 0; i < 60; ++i) weights[i] = 1.0 / static_cast<double>(i + 1);
  const Truncation cut{{1, 6, 5, 1}, {}, {}};
  const auto weighted_error = [&](const Fit& fit) {
    const Matrix e = difference(table, first_rows(expand(fit.chain), 60));
    double sum = 0;
    for (std::int64_t i = 0; i < 60; ++i)
      for (std::int64_t j = 0; j < 12; ++j) sum += weights[static_cast<std::size_t>(i)] * e(i, j) * e(i, j);
    return sum;
  };
  const Fit plain = ttm_svd(table, {4, 3, 5}, {2, 3, 2}, cut),
            weighted = ttm_svd(table, {4, 3, 5}, {2, 3, 2}, cut, weights);
  CHECK(weighted.chain.layout.ranks == plain.chain.layout.ranks);
  CHECK(weighted_error(weighted) < 0.95 * weighted_error(plain));
  CHECK(weighted.rel_error == Approx(relative_error(table, first_rows(expand(weighted.chain), 60))));
}

TEST_CASE("the bound of a ttm is below every fit of its ranks and near the best one") {
  const Sizes row_modes{4, 3, 5}, column_modes{2, 3, 2}, ranks{1, 6, 5, 1};
  std::vector<double> product_of_factors(53), any(53);
  for (std::size_t i = 0; i < 53; ++i) {
    const std::size_t first = i / 15, last = i % 5;
    product_of_factors[i] =
        std::pow(1.0 + static_cast<double>(first), 2) * std::pow(0.5 + static_cast<double>(last), 2);
    any[i] = 1.0 / static_cast<double>(i % 7 + 1);
  }
  for (const std::int64_t rows : {60, 53}) {
    const Matrix table = random_matrix(rows, 12, 60 + static_cast<unsigned>(rows));
    const double bound = ttm_error_bound(table, row_modes, column_modes, ranks);
    const Fit fit = ttm_svd(table, row_modes, column_modes, {ranks, {}, {}});
    CHECK(bound <= fit.rel_error);
    CHECK(fit.rel_error <=
          std::sqrt(2.0) * bound *
              (rows == 60 ? 1 + 1e-12 : 1.3));  // at most sqrt(d - 1) times the largest tail, for d cores
    CHECK(ttm_error_bound(table, row_modes, column_modes, {1, 8, 10, 1}) < 1e-7);
  }
  const Matrix table = random_matrix(53, 12, 61);
  for (const std::vector<double>& weights : {product_of_factors, any}) {
    const Matrix e = difference(
        table, first_rows(expand(ttm_svd(table, row_modes, column_modes, {ranks, {}, {}}, weights).chain), 53));
    double lost = 0, whole = 0;
    for (std::int64_t i = 0; i < 53; ++i)
      for (std::int64_t j = 0; j < 12; ++j) {
        lost += weights[static_cast<std::size_t>(i)] * e(i, j) * e(i, j);
        whole += weights[static_cast<std::size_t>(i)] * table(i, j) * table(i, j);
      }
    const double bound = ttm_error_bound(table, row_modes, column_modes, ranks, weights);
    CHECK(bound <= std::sqrt(lost / whole));
    CHECK(bound >= 0.3 * std::sqrt(lost / whole));
  }
}
