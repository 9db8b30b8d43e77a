#include "lib/engine/similarity.h"

#include <catch2/catch.hpp>
#include <cmath>

using namespace comera;

TEST_CASE("rank correlation shares the ranks of equal values") {
  // Ranks 0, 1.5, 1.5, 3, 4 against 1, 0, 2.5, 2.5, 4: covariance 7.25, both variances 9.5.
  CHECK(engine::spearman(std::vector<double>{1, 2, 2, 3, 5}, std::vector<double>{2, 1, 4, 4, 9}) ==
        Approx(7.25 / 9.5).epsilon(1e-14));
  CHECK(engine::spearman(std::vector<double>{1, 2, 3}, std::vector<double>{-1, -8, -9}) == Approx(-1).epsilon(1e-14));
  CHECK(engine::spearman(std::vector<double>{1, 2, 3}, std::vector<double>{4, 4, 4}) == 0);
  CHECK(std::isnan(engine::spearman(std::vector<double>{1, NAN, 3}, std::vector<double>{4, 5, 6})));
  CHECK(engine::pearson(std::vector<double>{1, 2, 3, 4}, std::vector<double>{1, 3, 2, 4}) ==
        Approx(0.8).epsilon(1e-14));
}

TEST_CASE("the bootstrap error matches theory for independent pairs and is reproducible") {
  // Without correlation the standard error of a rank correlation of n pairs is 1 / sqrt(n - 1).
  constexpr int pairs = 400;
  std::vector<double> x, y;
  for (int i = 0; i < pairs; ++i)
    x.push_back(std::sin(12.9898 * i) * 43758.5453), y.push_back(std::sin(78.233 * i + 1) * 24634.6345);
  for (auto* values : {&x, &y})
    for (double& value : *values) value -= std::floor(value);
  const double error = engine::bootstrap_error(x, y, 500, 1);
  CHECK(error == Approx(1 / std::sqrt(pairs - 1.0)).epsilon(0.2));
  CHECK(engine::bootstrap_error(x, y, 500, 1) == error);
  CHECK(engine::bootstrap_error(x, x, 50, 1) == Approx(0).margin(1e-12));
}
