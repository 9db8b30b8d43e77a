#include "lib/engine/similarity.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "lib/core/error.h"
#include "lib/core/process.h"
#include "lib/core/terminal/stop.h"
#include "lib/core/terminal/task_progress.h"
#include "lib/core/units.h"
#include "lib/data/random.h"
#include "lib/engine/answer.h"

namespace comera::engine {
namespace {

constexpr int bootstrap_samples = 1000;

std::vector<std::size_t> shortest_first(const std::vector<std::string>& texts) {
  std::vector<std::size_t> order(texts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return texts[a].size() < texts[b].size(); });
  return order;
}

double cosine(std::span<const float> x, std::span<const float> y) {
  double xy = 0, xx = 0, yy = 0;
  for (std::size_t j = 0; j < x.size(); ++j) {
    xy += static_cast<double>(x[j]) * y[j];
    xx += static_cast<double>(x[j]) * x[j];
    yy += static_cast<double>(y[j]) * y[j];
  }
  return xy / std::max(std::sqrt(xx * yy), 1e-24);
}

std::vector<double> ranks_of(std::span<const double> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    const double shared = static_cast<double>(begin + end - 1) / 2;
    for (std::size_t i = begin; i < end; ++i) ranks[order[i]] = shared;
  }
  return ranks;
}

double score_of(const data::TextDataset& dataset, std::int64_t row) {
  const std::string& text = dataset.labels()[static_cast<std::size_t>(dataset.label(row))];
  const std::optional<double> score = parse_real(text);
  if (!score) fail_input("[data] {}: row {}: the score '{}' is not a number", dataset.files().front(), row + 1, text);
  return *score;
}

}  // namespace

std::vector<float> embed(Engine& engine, const std::shared_ptr<const data::Tokenizer>& tokenizer,
                         const std::vector<std::string>& texts, const EmbeddingOptions& options) {
  const std::vector<std::size_t> order = shortest_first(texts);
  std::vector<std::vector<std::string>> rows;
  for (const std::size_t i : order) rows.push_back({options.prompt + texts[i]});
  data::DataSpec spec;
  spec.task = data::Task::embed;
  spec.text = {"text"};
  spec.max_length = options.max_length;
  const auto dataset = data::Dataset::from_rows(spec, tokenizer, rows, std::vector<std::int32_t>(rows.size(), -1), {});
  data::LoaderOptions loading;
  loading.batch = options.batch;
  loading.shuffle = false;
  loading.threads = options.threads;
  loading.stops = true;
  const std::unique_ptr<data::Loader> loader = data::Loader::open(dataset, loading);
  std::vector<float> vectors;
  data::Batch batch;
  std::optional<TaskProgress> task;
  if (!options.task.empty()) task.emplace(options.task, std::ssize(texts));
  for (std::size_t next = 0; !texts.empty() && loader->next(batch);) {
    const Scores scores = engine.evaluate(batch);
    check_answer(scores);
    const std::size_t width = scores.embedding.size() / static_cast<std::size_t>(batch.sequences);
    vectors.resize(texts.size() * width);
    if (task) task->advance(batch.sequences);
    for (std::size_t b = 0; b < static_cast<std::size_t>(batch.sequences); ++b, ++next)
      std::copy_n(scores.embedding.begin() + static_cast<std::ptrdiff_t>(b * width), width,
                  vectors.begin() + static_cast<std::ptrdiff_t>(order[next] * width));
  }
  return vectors;
}

Similarity evaluate_similarity(Engine& engine, const data::TextDataset& dataset,
                               const std::shared_ptr<const data::Tokenizer>& tokenizer, const EmbeddingOptions& options,
                               std::vector<double>* cosines) {
  std::vector<std::string> texts;
  std::vector<double> scores, likeness;
  for (std::int64_t row = 0; row < dataset.size(); ++row) {
    scores.push_back(score_of(dataset, row));
    for (const int which : {0, 1}) texts.emplace_back(dataset.text(row, which));
  }
  const double start = wall_seconds();
  const std::vector<float> vectors = embed(engine, tokenizer, texts, options);
  Similarity result;
  result.seconds = wall_seconds() - start;
  const std::size_t width = vectors.size() / std::max<std::size_t>(texts.size(), 1);
  const std::span<const float> all(vectors);
  for (std::size_t i = 0; i < texts.size(); i += 2)
    likeness.push_back(cosine(all.subspan(i * width, width), all.subspan((i + 1) * width, width)));
  result.pairs = static_cast<std::int64_t>(scores.size());
  result.spearman = spearman(likeness, scores);
  result.spearman_error = bootstrap_error(likeness, scores, bootstrap_samples, 0);
  result.pearson = pearson(likeness, scores);
  if (cosines) *cosines = std::move(likeness);
  return result;
}

double pearson(std::span<const double> x, std::span<const double> y) {
  const double count = static_cast<double>(std::max<std::size_t>(x.size(), 1));
  const double mean_x = std::accumulate(x.begin(), x.end(), 0.0) / count,
               mean_y = std::accumulate(y.begin(), y.end(), 0.0) / count;
  double xy = 0, xx = 0, yy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mean_x) * (y[i] - mean_y);
    xx += (x[i] - mean_x) * (x[i] - mean_x);
    yy += (y[i] - mean_y) * (y[i] - mean_y);
  }
  return xx == 0 || yy == 0 ? 0 : xy / std::sqrt(xx * yy);
}

double spearman(std::span<const double> x, std::span<const double> y) {
  const auto is_nan = [](double value) { return std::isnan(value); };
  if (std::ranges::any_of(x, is_nan) || std::ranges::any_of(y, is_nan)) return NAN;  // it has no rank
  return pearson(ranks_of(x), ranks_of(y));
}

double bootstrap_error(std::span<const double> x, std::span<const double> y, int samples, std::uint64_t seed) {
  const data::Random random(seed, 0, data::Purpose::sample);
  std::vector<double> drawn_x(x.size()), drawn_y(y.size()), found;
  TaskProgress task("drawing pairs for the error", samples);
  for (int sample = 0; sample < samples; ++sample) {
    check_stop();
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::uint64_t word = random.draw(static_cast<std::uint64_t>(sample), static_cast<std::uint32_t>(i)).word[0];
      const std::size_t which = word * x.size() >> 32;
      drawn_x[i] = x[which], drawn_y[i] = y[which];
    }
    found.push_back(spearman(drawn_x, drawn_y));
    task.advance();
  }
  const double mean = std::accumulate(found.begin(), found.end(), 0.0) / static_cast<double>(samples);
  double sum = 0;
  for (const double value : found) sum += (value - mean) * (value - mean);
  return std::sqrt(sum / static_cast<double>(std::max(samples - 1, 1)));
}

}  // namespace comera::engine
