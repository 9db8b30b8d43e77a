#include "lib/engine/score_metrics.h"

#include <algorithm>

#include "lib/core/error.h"
#include "lib/engine/similarity.h"

namespace comera::engine {

ScoreMetrics score_metrics(std::span<const double> predicted, std::span<const double> known) {
  COMERA_CHECK(predicted.size() == known.size());
  ScoreMetrics metrics{static_cast<std::int64_t>(known.size()), 0, 0, 0};
  for (std::size_t i = 0; i < known.size(); ++i) metrics.mse += (predicted[i] - known[i]) * (predicted[i] - known[i]);
  metrics.mse /= static_cast<double>(std::max<std::size_t>(known.size(), 1));
  const bool finite =
      std::all_of(predicted.begin(), predicted.end(), [](double number) { return std::isfinite(number); });
  metrics.pearson = finite ? pearson(predicted, known) : NAN;
  metrics.spearman = finite ? spearman(predicted, known) : NAN;
  return metrics;
}

}  // namespace comera::engine
