#include "lib/engine/click_metrics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lib/core/terminal/stop.h"
#include "lib/core/terminal/task_progress.h"
#include "lib/data/random.h"

namespace comera::engine {
namespace {

double probability(double logit) { return 1 / (1 + std::exp(-logit)); }

double loss_of(double logit, bool click) {
  return std::max(logit, 0.0) + std::log1p(std::exp(-std::abs(logit))) - (click ? logit : 0);
}

double entropy(double share) { return -share * std::log(share) - (1 - share) * std::log1p(-share); }

// A diverged model gives NaN, which is neither smaller nor larger nor equal to any logit.
bool has_order(const ClickScores& scores) {
  return std::ranges::none_of(scores.logits, [](float logit) { return std::isnan(logit); });
}

// The examples in the order of their logits.
std::vector<std::uint32_t> sorted_by_logit(const ClickScores& scores) {
  std::vector<std::uint32_t> order(scores.logits.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return scores.logits[a] < scores.logits[b]; });
  return order;
}

struct Quality {
  double auc = NAN, nce = NAN;
};

// weight(k): of the example order[k].
template <class Weight>
Quality quality_of(const ClickScores& scores, const std::vector<std::uint32_t>& order, const Weight& weight) {
  double clicks = 0, others = 0, pairs = 0, loss = 0;
  for (std::size_t begin = 0, end; begin < order.size(); begin = end) {
    double tied_clicks = 0, tied_others = 0;
    for (end = begin; end < order.size() && scores.logits[order[end]] == scores.logits[order[begin]]; ++end) {
      const double w = weight(end);
      (scores.labels[order[end]] ? tied_clicks : tied_others) += w;
      loss += w * loss_of(scores.logits[order[end]], scores.labels[order[end]] != 0);
    }
    pairs += tied_clicks * (others + tied_others / 2);
    clicks += tied_clicks, others += tied_others;
  }
  if (clicks == 0 || others == 0) return {};
  const double all = clicks + others;
  return {pairs / (clicks * others), loss / all / entropy(clicks / all)};
}

// [order]: the share of clicks among the examples with the same logit.
std::vector<double> shares_of_clicks(const ClickScores& scores, const std::vector<std::uint32_t>& order) {
  std::vector<double> shares(order.size());
  for (std::size_t begin = 0, end; begin < order.size(); begin = end) {
    double clicks = 0;
    for (end = begin; end < order.size() && scores.logits[order[end]] == scores.logits[order[begin]]; ++end)
      clicks += scores.labels[order[end]];
    std::fill(shares.begin() + static_cast<std::ptrdiff_t>(begin), shares.begin() + static_cast<std::ptrdiff_t>(end),
              clicks / static_cast<double>(end - begin));
  }
  return shares;
}

std::vector<CalibrationBin> bins_of(const ClickScores& scores, const std::vector<std::uint32_t>& order) {
  const std::vector<double> shares = shares_of_clicks(scores, order);
  std::vector<CalibrationBin> bins;
  const std::size_t parts = std::min<std::size_t>(calibration_bins, order.size());
  for (std::size_t part = 0; part < parts; ++part) {
    const std::size_t begin = order.size() * part / parts, end = order.size() * (part + 1) / parts;
    CalibrationBin bin{static_cast<std::int64_t>(end - begin), 0, 0};
    for (std::size_t k = begin; k < end; ++k) {
      bin.predicted += probability(scores.logits[order[k]]) / static_cast<double>(end - begin);
      bin.observed += shares[k] / static_cast<double>(end - begin);
    }
    bins.push_back(bin);
  }
  return bins;
}

// The numbers of a Poisson distribution of mean 1 up to each of these chances; larger ones are too rare to count.
int poisson_of(std::uint32_t draw) {
  static constexpr double up_to[] = {.36787944117144233, .73575888234288467, .91969860292860584, .98101184312384624,
                                     .99634015317265633, .99940581518241836, .99991675885071196};
  const double share = draw / 4294967296.0;
  int number = 0;
  while (number < 7 && share >= up_to[number]) ++number;
  return number;
}

double deviation_of(const std::vector<double>& values) {
  const double count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double sum = 0;
  for (const double value : values) sum += (value - mean) * (value - mean);
  return std::sqrt(sum / std::max(count - 1, 1.0));
}

}  // namespace

ClickMetrics click_metrics(const ClickScores& scores) {
  ClickMetrics metrics;
  metrics.count = std::ssize(scores.logits);
  if (metrics.count == 0) return metrics;
  metrics.clicks = std::count(scores.labels.begin(), scores.labels.end(), 1);
  if (!has_order(scores)) {
    metrics.auc = metrics.nce = metrics.calibration = NAN;
    return metrics;
  }
  const std::vector<std::uint32_t> order = sorted_by_logit(scores);
  const Quality quality = quality_of(scores, order, [](std::size_t) { return 1.0; });
  metrics.auc = quality.auc, metrics.nce = quality.nce;
  double predicted = 0;
  for (const float logit : scores.logits) predicted += probability(logit);
  metrics.calibration = metrics.clicks > 0 ? predicted / static_cast<double>(metrics.clicks) : NAN;
  metrics.bins = bins_of(scores, order);
  return metrics;
}

void add_bootstrap_errors(const ClickScores& scores, int samples, std::uint64_t seed, ClickMetrics& metrics) {
  if (!has_order(scores)) {
    metrics.auc_error = metrics.nce_error = NAN;
    return;
  }
  const std::vector<std::uint32_t> order = sorted_by_logit(scores);
  const data::Random random(seed, 0, data::Purpose::sample);
  std::vector<double> auc, nce;
  std::vector<std::uint8_t> weights(order.size() + 3);
  TaskProgress task("drawing examples for the error", samples);
  for (int sample = 0; sample < samples; ++sample) {
    check_stop();
    for (std::size_t k = 0; k < order.size(); k += 4) {
      const auto block = random.draw(static_cast<std::uint64_t>(sample), static_cast<std::uint32_t>(k / 4));
      for (std::size_t i = 0; i < 4; ++i) weights[k + i] = static_cast<std::uint8_t>(poisson_of(block.word[i]));
    }
    const Quality drawn = quality_of(scores, order, [&](std::size_t k) { return static_cast<double>(weights[k]); });
    if (!std::isnan(drawn.auc)) auc.push_back(drawn.auc), nce.push_back(drawn.nce);
    task.advance();
  }
  if (auc.size() < 2) {
    metrics.auc_error = metrics.nce_error = NAN;
    return;
  }
  metrics.auc_error = deviation_of(auc), metrics.nce_error = deviation_of(nce);
}

}  // namespace comera::engine
