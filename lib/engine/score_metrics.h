// Measures the error and correlation of predicted numbers against the known ones.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

namespace comera::engine {

struct ScoreMetrics {
  std::int64_t count = 0;  // of pairs; 0: the other fields are undefined
  double mse = 0, pearson = 0, spearman = 0;
  double rmse() const { return std::sqrt(mse); }
};

// Correlations are 0 if one side is constant, and NaN if a prediction is not a finite number.
ScoreMetrics score_metrics(std::span<const double> predicted, std::span<const double> known);

}  // namespace comera::engine
