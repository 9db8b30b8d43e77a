#include "lib/engine/class_metrics.h"

#include <catch2/catch.hpp>
#include <cmath>

using namespace comera::engine;

namespace {

// Matthews' correlation from its definition: the correlation of two rows of indicators, one per example and class.
double correlation(const Confusion& confusion) {
  const std::size_t classes = confusion.size();
  double all = 0;
  std::vector<double> labels(classes), predictions(classes);
  for (std::size_t i = 0; i < classes; ++i)
    for (std::size_t j = 0; j < classes; ++j) {
      const auto count = static_cast<double>(confusion[i][j]);
      all += count, labels[i] += count, predictions[j] += count;
    }
  double both = 0, one = 0, other = 0;
  for (std::size_t i = 0; i < classes; ++i)
    for (std::size_t j = 0; j < classes; ++j)
      for (std::size_t k = 0; k < classes; ++k) {
        const auto count = static_cast<double>(confusion[i][j]);
        const double label = (i == k) - labels[k] / all, prediction = (j == k) - predictions[k] / all;
        both += count * label * prediction, one += count * label * label, other += count * prediction * prediction;
      }
  return both / std::sqrt(one * other);
}

}  // namespace

TEST_CASE("F1 and Matthews' correlation of two classes are those of the second class") {
  const ClassMetrics metrics = class_metrics({{5, 1}, {1, 3}});
  CHECK(metrics.f1 == Approx(0.75));             // 6 / (6 + 1 + 1)
  CHECK(metrics.matthews == Approx(14.0 / 24));  // (3 * 5 - 1) / sqrt(4 * 4 * 6 * 6)
  CHECK(class_metrics({{4, 0}, {0, 6}}).matthews == Approx(1));
  CHECK(class_metrics({{0, 4}, {6, 0}}).matthews == Approx(-1));
  CHECK(class_metrics({{0, 4}, {0, 6}}).matthews == 0);  // one prediction for all
  CHECK(class_metrics({{4, 0}, {6, 0}}).f1 == 0);
  CHECK(class_metrics({}).f1 == 0);
}

TEST_CASE("More classes have the mean of their F1, without classes that do not occur, and one correlation") {
  const Confusion confusion{{7, 2, 1, 0}, {1, 5, 3, 0}, {2, 0, 4, 0}, {0, 0, 0, 0}};
  const ClassMetrics metrics = class_metrics(confusion);
  CHECK(metrics.f1 == Approx((14.0 / 20 + 10.0 / 16 + 8.0 / 14) / 3));
  CHECK(metrics.matthews == Approx(correlation({{7, 2, 1}, {1, 5, 3}, {2, 0, 4}})).epsilon(1e-12));
}

TEST_CASE("Sets of labels have micro and macro F1 and the share of sets that are right") {
  SetScores scores;
  scores.add({1, 0, 1}, {1, 0, 1});
  scores.add({1, 1, 0}, {0, 1, 1});
  scores.add({0, 0, 0}, {0, 0, 1});
  const SetMetrics metrics = scores.metrics();
  CHECK(metrics.exact == Approx(1.0 / 3));
  CHECK(metrics.micro_f1 == Approx(6.0 / 9));  // 3 right, 1 missed, 2 wrong
  CHECK(metrics.macro_f1 == Approx((2.0 / 3 + 1 + 2.0 / 4) / 3));
  CHECK(SetScores().metrics().micro_f1 == 0);
}
