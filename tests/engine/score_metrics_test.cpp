#include "lib/engine/score_metrics.h"

#include <catch2/catch.hpp>
#include <vector>

using namespace comera::engine;

TEST_CASE("error and correlations of predicted numbers match their definitions") {
  const std::vector<double> known{1, 2, 3, 4}, predicted{1.5, 1, 4, 10};
  const ScoreMetrics metrics = score_metrics(predicted, known);
  CHECK(metrics.count == 4);
  CHECK(metrics.mse == Approx((0.25 + 1 + 1 + 36) / 4));
  CHECK(metrics.rmse() == Approx(std::sqrt(38.25 / 4)));
  CHECK(metrics.spearman == Approx(0.8));  // 1 - 6 (1 + 1) / (4 * 15)
  CHECK(metrics.pearson == Approx(14.25 / std::sqrt(5 * 51.1875)));
}

TEST_CASE("correlations of constant, unknown or non-finite values") {
  const std::vector<double> known{1, 2, 3}, constant{2, 2, 2}, broken{1, NAN, INFINITY};
  CHECK(score_metrics(constant, known).pearson == 0);
  CHECK(score_metrics(constant, known).spearman == 0);
  CHECK(score_metrics({}, {}).count == 0);
  CHECK(score_metrics({}, {}).mse == 0);
  const ScoreMetrics none = score_metrics(broken, known);
  CHECK(std::isnan(none.mse));
  CHECK(std::isnan(none.pearson));
  CHECK(std::isnan(none.spearman));
}
