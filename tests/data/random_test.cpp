#include "lib/data/random.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

using namespace comera::data;

TEST_CASE("random: a permutation visits every index once") {
  for (std::int64_t size : {1, 2, 3, 4, 5, 16, 17, 1000, 65537}) {
    const Permutation permutation(size, Random(7, 0, Purpose::rows));
    std::vector<int> seen(static_cast<std::size_t>(size));
    for (std::int64_t i = 0; i < size; ++i) ++seen.at(static_cast<std::size_t>(permutation(i)));
    CHECK(std::count(seen.begin(), seen.end(), 1) == size);
  }
}

TEST_CASE("random: permutations differ between seeds, epochs, purposes and counters") {
  const auto first = [](const Permutation& p) {
    std::vector<std::int64_t> order;
    for (std::int64_t i = 0; i < 50; ++i) order.push_back(p(i));
    return order;
  };
  const auto base = first({50, Random(7, 0, Purpose::rows)});
  CHECK(base == first({50, Random(7, 0, Purpose::rows)}));
  CHECK(base != first({50, Random(8, 0, Purpose::rows)}));
  CHECK(base != first({50, Random(7, 1, Purpose::rows)}));
  CHECK(base != first({50, Random(7, 0, Purpose::steps)}));
  CHECK(base != first({50, Random(7, 0, Purpose::rows), 1}));
}

TEST_CASE("random: every index is mapped to every position equally often") {
  constexpr std::int64_t size = 5, draws = 5000;
  double counts[size][size] = {};
  for (std::int64_t seed = 0; seed < draws; ++seed) {
    const Permutation permutation(size, Random(static_cast<std::uint64_t>(seed), 0, Purpose::rows));
    for (std::int64_t i = 0; i < size; ++i) counts[i][permutation(i)] += 1;
  }
  // Each count is binomial(draws, 1/5); one in 5e8 counts is off by more than 6 standard deviations.
  const double expected = draws / 5.0, deviation = std::sqrt(draws * 0.2 * 0.8);
  for (const auto& row : counts)
    for (double count : row) CHECK(std::abs(count - expected) < 6 * deviation);
}
