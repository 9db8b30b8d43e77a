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

TEST_CASE("click metrics: the bins do not depend on the order of equal predictions") {
  // Three probabilities, whose borders lie inside bins; clicks first, and clicks last.
  ClickScores first, last;
  const float logits[] = {-1, 0, 2};
  const int counts[] = {23, 15, 12}, clicks[] = {4, 9, 11};
  for (int group = 0; group < 3; ++group)
    for (int i = 0; i < counts[group]; ++i)
      for (ClickScores* scores : {&first, &last}) {
        scores->logits.push_back(logits[group]);
        scores->labels.push_back(scores == &first ? i < clicks[group] : counts[group] - i <= clicks[group]);
      }
  const ClickMetrics one = click_metrics(first), other = click_metrics(last);
  REQUIRE(one.bins.size() == calibration_bins);
  REQUIRE(other.bins.size() == calibration_bins);
  double observed = 0;
  for (std::size_t b = 0; b < one.bins.size(); ++b) {
    CHECK(one.bins[b].count == 5);
    CHECK(one.bins[b].observed == other.bins[b].observed);
    CHECK(one.bins[b].predicted == other.bins[b].predicted);
    observed += 5 * one.bins[b].observed;
  }
  CHECK(one.bins[0].observed == Approx(4.0 / 23));
  CHECK(one.bins[4].observed == Approx((3 * 4.0 / 23 + 2 * 9.0 / 15) / 5));
  CHECK(observed == Approx(24));
}

TEST_CASE("click metrics: a diverged model has no measures") {
  const ClickScores scores{{NAN, 1, NAN}, {1, 0, 1}};
  ClickMetrics metrics = click_metrics(scores);
  add_bootstrap_errors(scores, 3, 1, metrics);
  for (const double measure : {metrics.auc, metrics.nce, metrics.calibration, metrics.auc_error, metrics.nce_error})
    CHECK(std::isnan(measure));
  CHECK(metrics.bins.empty());
  CHECK(metrics.clicks == 2);
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
