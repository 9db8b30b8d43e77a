// How near predicted numbers are to the known ones.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

namespace comera::train {

struct ScoreMetrics {
  std::int64_t count = 0;  // of pairs; 0: the rest means nothing
  double mse = 0, pearson = 0, spearman = 0;
  double rmse() const { return std::sqrt(mse); }
};

// Correlations are 0 where one side is constant, and NaN where a prediction is no finite number.
ScoreMetrics score_metrics(std::span<const double> predicted, std::span<const double> known);

}  // namespace comera::train
