#include "lib/tt/chain.h"

#include <catch2/catch.hpp>
#include <limits>
#include <numeric>

#include "lib/core/error.h"
#include "tests/tt/random_chain.h"

using namespace comera;
using namespace comera::tt;
using test::random_chain;
using test::random_matrix;

namespace {

const double eps = std::numeric_limits<double>::epsilon();

double core_entry(const Chain& c, std::size_t k, std::int64_t a, std::int64_t n, std::int64_t b) {
  return c.cores[k][static_cast<std::size_t>((a * c.layout.entry_size(k) + n) * c.layout.ranks[k + 1] + b)];
}

}  // namespace

TEST_CASE("a chain expands to the matrix of the format: unequal numbers of modes, inputs first") {
  const Chain c = random_chain(tt_layout({2, 3}, {4}, {1, 2, 3, 1}), 1);
  check_chain(c, "w");
  const Matrix w = expand(c);
  for (std::int64_t i = 0; i < 6; ++i)
    for (std::int64_t o = 0; o < 4; ++o) {
      double sum = 0;
      for (std::int64_t a = 0; a < 2; ++a)
        for (std::int64_t b = 0; b < 3; ++b)
          sum += core_entry(c, 0, 0, i / 3, a) * core_entry(c, 1, a, i % 3, b) * core_entry(c, 2, b, o, 0);
      CHECK(w(i, o) == Approx(sum).epsilon(20 * eps).margin(20 * eps));
    }
  CHECK(stored_numbers(c) == 4 + 18 + 12);
  CHECK(stored_bytes(c, {1, 2}) == 68);
}

TEST_CASE("a table pairs row modes with column modes") {
  const Chain c = random_chain(ttm_layout({2, 3}, {2, 5}, {1, 4, 1}), 2);
  check_chain(c, "e");
  const Matrix e = expand(c);
  REQUIRE(e.rows == 6);
  for (std::int64_t i = 0; i < 6; ++i)
    for (std::int64_t j = 0; j < 10; ++j) {
      double sum = 0;
      for (std::int64_t a = 0; a < 4; ++a)
        sum += core_entry(c, 0, 0, i / 3 * 2 + j / 5, a) * core_entry(c, 1, a, i % 3 * 5 + j % 5, 0);
      CHECK(e(i, j) == Approx(sum).epsilon(20 * eps).margin(20 * eps));
    }
}

TEST_CASE("order maps rows of the chain to rows of the weight") {
  Chain c = random_chain(tt_layout({2, 3}, {4}, {1, 2, 3, 1}), 3);
  const Matrix plain = expand(c);
  c.order = {3, 0, 5, 1, 4, 2};
  c.layout.sorted = true;
  const Matrix w = expand(c);
  for (std::int64_t p = 0; p < 6; ++p)
    for (std::int64_t o = 0; o < 4; ++o) CHECK(w(c.order[static_cast<std::size_t>(p)], o) == plain(p, o));
  CHECK(gather_rows(scatter_rows(plain, c.order), c.order).values == plain.values);
  CHECK(stored_indices(c) == 6);
}

TEST_CASE("fixing the gauge keeps the matrix, saves R² numbers and bounds the entries") {
  for (const auto& [in, out, rank] :
       {std::tuple{12, 9, 4}, {5, 5, 5}, {7, 31, 7}, {64, 48, 1}, {1, 1, 1}, {80, 96, 70}}) {
    const Chain c = chain_of_pair({random_matrix(in, rank, 11), random_matrix(rank, out, 12)});
    const Chain g = fix_gauge(c, 1.5);
    check_chain(g, "w");
    REQUIRE(static_cast<std::int64_t>(g.gauge.size()) == rank);
    CHECK(stored_numbers(g) == stored_numbers(c) - rank * rank);
    for (const double value : g.cores.back()) CHECK(std::abs(value) <= 1.5 + 1e-9);
    // The error of T⁻¹ grows with the condition of the chosen block. The bound on the entries keeps it low: some
    // hundreds here.
    CHECK(relative_error(expand(c), expand(g)) <= 1e4 * 100 * eps);
  }
}

TEST_CASE("the gauge of a chain with a split input and an order") {
  Chain c = random_chain(tt_layout({4, 6}, {20}, {1, 3, 8, 1}), 21);
  c.order.resize(24);
  c.layout.sorted = true;
  std::iota(c.order.rbegin(), c.order.rend(), 0);
  const Chain g = fix_gauge(c);
  CHECK(g.gauge.size() == 8);
  CHECK(relative_error(expand(c), expand(g)) <= 1e-11);
}

TEST_CASE("no gauge without a well-conditioned block or without a single output mode") {
  Matrix right = random_matrix(4, 10, 31);
  for (std::int64_t j = 0; j < 10; ++j) right(3, j) = right(0, j);
  const Chain singular = chain_of_pair({random_matrix(6, 4, 30), right});
  CHECK(relative_error(expand(singular), expand(fix_gauge(singular))) <= 1e-9);
  const Chain two = random_chain(tt_layout({4}, {3, 2}, {1, 2, 2, 1}), 33);
  CHECK(fix_gauge(two).gauge.empty());
  CHECK(fix_gauge(random_chain(ttm_layout({4}, {3}, {1, 1}), 34)).gauge.empty());
}

TEST_CASE("parts that do not fit together are errors with the name") {
  const Chain good = random_chain(tt_layout({2, 3}, {4}, {1, 2, 3, 1}), 1);
  Chain c = good;
  c.cores[1].pop_back();
  CHECK_THROWS_WITH(check_chain(c, "layer.0"), Catch::Contains("layer.0: core 1 holds 17 numbers"));
  c = good;
  c.cores[2][0] = std::numeric_limits<double>::infinity();
  CHECK_THROWS_WITH(check_chain(c, "layer.0"), Catch::Contains("core 2 holds inf"));
  c = good;
  c.order = {0, 1, 2, 3, 4, 4};
  c.layout.sorted = true;
  CHECK_THROWS_WITH(check_chain(c, "layer.0"), Catch::Contains("order holds 4"));
  c.order = {0, 1};
  CHECK_THROWS_AS(check_chain(c, "layer.0"), InputError);
  c = good;
  c.gauge = {0, 1};
  c.layout.gauge = true;
  CHECK_THROWS_AS(check_chain(c, "layer.0"), InputError);
  c = good;
  c.layout.sorted = true;
  CHECK_THROWS_WITH(check_chain(c, "layer.0"), Catch::Contains("order has 0 entries"));
  c = good;
  c.layout.exact_rows = 2;
  CHECK_THROWS_WITH(check_chain(c, "layer.0"), Catch::Contains("wanted 2 ids"));
  c = good;
  c.layout.ranks = {1, 2, 1};
  CHECK_THROWS_AS(check_chain(c, "layer.0"), InputError);
}
