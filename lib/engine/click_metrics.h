// Measures predicted probabilities of clicks against what happened.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace comera::engine {

// One part of the examples, sorted by probability: parts have equally many examples. Examples of equal probability that
// lie in several parts are in each with the share of clicks of all of them, so that their order does not count.
struct CalibrationBin {
  std::int64_t count = 0;
  double predicted = 0, observed = 0;  // mean probability; share of clicks
};

struct ClickMetrics {
  std::int64_t count = 0, clicks = 0;  // examples with a label; those with label 1. count 0: the rest is undefined
  // The chance that a click has a higher logit than an example without one; a tie counts half. NaN without both, or
  // if a logit is NaN; then all other measures are NaN too, and there are no bins.
  double auc = 0;
  // Normalised cross-entropy: the logistic loss relative to that of the share of clicks, below 1 if the model is better
  // (He et al. 2014, "Practical lessons from predicting clicks on ads at Facebook", section 3). NaN without both.
  double nce = 0;
  double calibration = 0;  // predicted clicks / clicks (the same, section 3); NaN without clicks
  std::vector<CalibrationBin> bins;
  double auc_error = 0, nce_error = 0;  // by bootstrap; 0: not measured; NaN as the two are
};

// The logits of examples and their labels, 0 or 1.
struct ClickScores {
  std::vector<float> logits;
  std::vector<std::uint8_t> labels;
};

constexpr int calibration_bins = 10, click_samples = 200;

ClickMetrics click_metrics(const ClickScores& scores);
// The standard deviations of AUC and NCE over `samples` draws, each example weighted by a Poisson number of mean 1
// (Oza and Russell 2001). Throws Stopped on a signal.
void add_bootstrap_errors(const ClickScores& scores, int samples, std::uint64_t seed, ClickMetrics& metrics);

}  // namespace comera::engine
