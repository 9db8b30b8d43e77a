#include "lib/engine/click_metrics.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

using namespace comera::engine;

TEST_CASE("click metrics: AUC is the share of pairs in the right order, a tie counts half") {
  const ClickScores scores{{0.5F, -1, 0.5F, 2, -1, 0}, {1, 0, 0, 1, 1, 0}};
  double right = 0;
  for (std::size_t i = 0; i < 6; ++i)
    for (std::size_t j = 0; j < 6; ++j)
      if (scores.labels[i] == 1 && scores.labels[j] == 0)
        right += scores.logits[i] > scores.logits[j] ? 1 : scores.logits[i] == scores.logits[j] ? 0.5 : 0;
  const ClickMetrics metrics = click_metrics(scores);
  CHECK(metrics.auc == Approx(right / 9));
  CHECK(metrics.clicks == 3);
}

TEST_CASE("click metrics: the share of clicks as the answer for all has NCE 1, AUC 1/2 and calibration 1") {
  const auto logit = static_cast<float>(std::log(0.3 / 0.7));
  ClickScores scores{std::vector<float>(1000, logit), std::vector<std::uint8_t>(1000, 0)};
  std::fill_n(scores.labels.begin(), 300, 1);
  const ClickMetrics metrics = click_metrics(scores);
  CHECK(metrics.nce == Approx(1));
  CHECK(metrics.auc == Approx(0.5));
  CHECK(metrics.calibration == Approx(1));
  REQUIRE(metrics.bins.size() == calibration_bins);
  for (const CalibrationBin& bin : metrics.bins) {
    CHECK(bin.count == 100);
    CHECK(bin.predicted == Approx(0.3));
  }
}

TEST_CASE("click metrics: one kind of label has no AUC") {
  CHECK(std::isnan(click_metrics({{1, 2}, {1, 1}}).auc));
  CHECK(std::isnan(click_metrics({{1, 2}, {0, 0}}).calibration));
  CHECK(click_metrics({}).count == 0);
  const ClickScores alike{{1, 2, 3}, {1, 1, 1}};
  ClickMetrics metrics = click_metrics(alike);
  add_bootstrap_errors(alike, 20, 1, metrics);
  CHECK((std::isnan(metrics.auc_error) && std::isnan(metrics.nce_error)));
}

// For two normal distributions whose means differ by d deviations, the error of AUC follows Hanley and McNeil 1982
// (Radiology 143), formulas 1 and 2, with Q1 = A / (2 - A) and Q2 = 2 A^2 / (1 + A).
TEST_CASE("click metrics: the bootstrap error of AUC is that of Hanley and McNeil") {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  ClickScores scores;
  for (int i = 0; i < 4000; ++i) {
    const bool click = i % 4 == 0;
    scores.labels.push_back(click);
    scores.logits.push_back(normal(random) + (click ? 1.0F : 0.0F));
  }
  ClickMetrics metrics = click_metrics(scores);
  add_bootstrap_errors(scores, 200, 1, metrics);
  const double a = metrics.auc, q1 = a / (2 - a), q2 = 2 * a * a / (1 + a), n = 1000, m = 3000;
  const double error = std::sqrt((a * (1 - a) + (n - 1) * (q1 - a * a) + (m - 1) * (q2 - a * a)) / (n * m));
  CHECK(metrics.auc_error == Approx(error).epsilon(0.25));  // 200 draws know a deviation to 5 %; the model is theirs
  CHECK(metrics.nce_error > 0);
}
