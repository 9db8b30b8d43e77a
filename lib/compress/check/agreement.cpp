#include "lib/compress/check/agreement.h"

#include <algorithm>
#include <cmath>

#include "lib/core/error.h"
#include "lib/engine/score_metrics.h"
#include "lib/engine/similarity.h"

namespace comera::compress {
namespace {

// Returns 1 for two zero vectors and 0 if only one of them is zero.
template <class T>
double cosine(std::span<const T> x, std::span<const T> y) {
  double xy = 0, xx = 0, yy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto a = static_cast<double>(x[i]), b = static_cast<double>(y[i]);
    xy += a * b, xx += a * a, yy += b * b;
  }
  if (xx == 0 || yy == 0) return xx == yy ? 1 : 0;
  return xy / std::sqrt(xx * yy);
}

template <class T>
std::span<const T> row(const std::vector<T>& values, std::size_t index, std::size_t width) {
  return std::span<const T>(values).subspan(index * width, width);
}

// Returns the number of columns for the given number of rows. InputError if the two models differ.
std::size_t width_of(std::size_t before, std::size_t after, std::int64_t rows, const char* what) {
  const auto count = static_cast<std::size_t>(std::max<std::int64_t>(rows, 1));
  if (before != after)
    fail_input(
        "[compare] {} of the two models have {} and {} numbers; only models of one shape of output can be compared",
        what, before / count, after / count);
  return before / count;
}

// log sum_i exp(logits[i]), stable for large logits.
double log_sum(std::span<const double> logits) {
  const double most = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit - most);
  return most + std::log(sum);
}

double divergence(std::span<const double> before, double log_before, std::span<const double> after, double log_after) {
  double sum = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const double log_p = before[i] - log_before;
    sum += std::exp(log_p) * (log_p - (after[i] - log_after));
  }
  return std::max(sum, 0.0);
}

auto best_of(std::span<const double> logits) { return std::max_element(logits.begin(), logits.end()) - logits.begin(); }

std::vector<double> cosines_of_pairs(const std::vector<double>& embeddings, std::size_t width) {
  std::vector<double> cosines;
  const std::size_t count = embeddings.size() / width;
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t j = 0; j < i; ++j) cosines.push_back(cosine(row(embeddings, i, width), row(embeddings, j, width)));
  return cosines;
}

}  // namespace

void Agreement::Cosines::add(double cosine) {
  ++count;
  sum += cosine;
  least = std::isnan(cosine) || cosine < least ? cosine : least;
}

std::optional<Comparison::Cosine> Agreement::Cosines::mean() const {
  return count > 0 ? std::optional(Comparison::Cosine{sum / static_cast<double>(count), least}) : std::nullopt;
}

// Texts spread evenly over all, so that neither their length nor their place in the files decides.
bool Agreement::is_paired(std::size_t place) const {
  COMERA_CHECK(place < texts_);
  return texts_ <= most_paired || place * most_paired % texts_ < most_paired;
}

void Agreement::add(const Given& before, const Given& after, std::int64_t tokens, std::span<const std::size_t> places,
                    std::span<const std::int32_t> next) {
  const std::size_t width = width_of(before.hidden.size(), after.hidden.size(), tokens, "hidden states");
  for (std::int64_t k = 0; k < tokens && width > 0; ++k)
    hidden_.add(cosine(row(before.hidden, static_cast<std::size_t>(k), width),
                       row(after.hidden, static_cast<std::size_t>(k), width)));
  if (!before.embedding.empty() || !after.embedding.empty()) {
    width_ = width_of(before.embedding.size(), after.embedding.size(), std::ssize(places), "embeddings");
    for (std::size_t b = 0; b < places.size(); ++b) {
      const auto x = row(before.embedding, b, width_), y = row(after.embedding, b, width_);
      embedding_.add(cosine(x, y));
      if (!is_paired(places[b])) continue;
      embeddings_before_.insert(embeddings_before_.end(), x.begin(), x.end());
      embeddings_.insert(embeddings_.end(), y.begin(), y.end());
    }
  }
  scores_before_.insert(scores_before_.end(), before.scores.begin(), before.scores.end());
  scores_.insert(scores_.end(), after.scores.begin(), after.scores.end());
  add_answers(before, after, next);
  tokens_ += tokens;
  sequences_ += std::ssize(places);
}

void Agreement::add_answers(const Given& before, const Given& after, std::span<const std::int32_t> next) {
  const auto count = std::ssize(next);
  const std::size_t width = width_of(before.logits.size(), after.logits.size(), count, "answers");
  width_of(before.best.size(), after.best.size(), count, "answers");
  for (std::size_t i = 0; i < next.size(); ++i) {
    words_ += next[i] >= 0;
    if (width == 0) {
      same_ += before.best[i] == after.best[i];
      continue;
    }
    const auto x = row(before.logits, i, width), y = row(after.logits, i, width);
    const double log_x = log_sum(x), log_y = log_sum(y);
    kl_ += divergence(x, log_x, y, log_y);
    same_ += best_of(x) == best_of(y);
    if (next[i] < 0) continue;
    loss_before_ += log_x - x[static_cast<std::size_t>(next[i])];
    loss_ += log_y - y[static_cast<std::size_t>(next[i])];
  }
  has_logits_ = has_logits_ || width > 0;
  loss_before_ += before.loss, loss_ += after.loss;
  answers_ += count;
}

Comparison Agreement::result() const {
  Comparison comparison;
  comparison.sequences = sequences_, comparison.tokens = tokens_;
  comparison.hidden = hidden_.mean(), comparison.embedding = embedding_.mean();
  comparison.words = words_ > 0;
  if (embeddings_.size() > 2 * width_)
    comparison.order =
        engine::spearman(cosines_of_pairs(embeddings_before_, width_), cosines_of_pairs(embeddings_, width_));
  if (!scores_.empty()) {
    const engine::ScoreMetrics scores = engine::score_metrics(scores_, scores_before_);
    comparison.scores = {scores.count, scores.rmse(), scores.spearman};
  }
  if (answers_ == 0) return comparison;
  const auto count = static_cast<double>(answers_);
  Comparison::Answers answers{answers_, static_cast<double>(same_) / count, {}, {}, {}};
  if (has_logits_) answers.kl = kl_ / count;
  if (words_ > 0) {
    answers.perplexity_before = std::exp(loss_before_ / static_cast<double>(words_));
    answers.perplexity = std::exp(loss_ / static_cast<double>(words_));
  }
  comparison.answers = answers;
  return comparison;
}

}  // namespace comera::compress
