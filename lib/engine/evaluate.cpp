#include "lib/engine/evaluate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "lib/core/error.h"
#include "lib/core/process.h"
#include "lib/core/terminal/task_progress.h"
#include "lib/engine/answer.h"

namespace comera::engine {
namespace {

// Softmax of one row at its class `best`.
double probability_of(std::span<const double> logits, std::int32_t best) {
  double sum = 0;
  for (double logit : logits) sum += std::exp(logit - logits[static_cast<std::size_t>(best)]);
  return 1 / sum;
}

void add_classified(const data::Batch& batch, const Scores& scores, std::int64_t first_row, Evaluation& result,
                    const std::function<void(const Prediction&)>& each) {
  const auto labels = batch["labels"].as<const std::int32_t>();
  const std::size_t classes = scores.logits.size() / std::max<std::size_t>(labels.size(), 1);
  for (std::size_t b = 0; b < labels.size(); ++b) {
    const std::int32_t predicted = scores.best[b];
    if (labels[b] >= 0 && static_cast<std::size_t>(labels[b]) < classes) ++result.confusion[labels[b]][predicted];
    if (each)
      each({.row = first_row + static_cast<std::int64_t>(b),
            .label = labels[b],
            .predicted = predicted,
            .probability = probability_of(scores.logits.subspan(b * classes, classes), predicted)});
  }
}

// Words: the tokens with a label, known or not.
void add_tagged(const data::Batch& batch, const Scores& scores, std::int64_t first_row, Evaluation& result,
                const std::function<void(const Prediction&)>& each) {
  const auto labels = batch["word_labels"].as<const std::int32_t>();
  const std::size_t classes = scores.logits.size() / std::max<std::size_t>(labels.size(), 1);
  for (std::size_t k = 0; k < labels.size(); ++k) {
    if (labels[k] == -1) continue;
    const std::int32_t predicted = scores.best[k];
    if (labels[k] >= 0) ++result.confusion[labels[k]][predicted];
    if (each)
      each({.row = first_row + static_cast<std::int64_t>(k) / batch.length,
            .label = std::max(labels[k], -1),
            .predicted = predicted,
            .probability = probability_of(scores.logits.subspan(k * classes, classes), predicted)});
  }
}

void add_sets(const data::Batch& batch, const Scores& scores, std::int64_t first_row, SetScores& sets,
              const std::function<void(const Prediction&)>& each) {
  const auto known = batch["label_sets"].as<const std::int32_t>();
  const std::size_t labels = known.size() / static_cast<std::size_t>(std::max<std::int64_t>(batch.sequences, 1));
  std::vector<std::uint8_t> right(labels), set(labels);
  for (std::size_t begin = 0; begin < known.size(); begin += labels) {
    double probability = 1;
    for (std::size_t label = 0; label < labels; ++label) {
      const double logit = scores.logits[begin + label];
      right[label] = known[begin + label] == 1;
      set[label] = logit > 0;
      probability /= 1 + std::exp(-std::abs(logit));
    }
    const bool labelled = known[begin] >= 0;
    if (labelled) sets.add(right, set);
    if (each)
      each({.row = first_row + static_cast<std::int64_t>(begin / labels),
            .set = set,
            .known_set = labelled ? right : std::vector<std::uint8_t>(),
            .probability = probability});
  }
}

// Numbers in the order of the data.
struct Numbers {
  std::vector<double> predicted, known;
};

void add_numbers(const data::Batch& batch, const Scores& scores, std::int64_t first_row, Numbers& numbers,
                 const std::function<void(const Prediction&)>& each) {
  const auto known = batch["scores"].as<const float>();
  for (std::size_t b = 0; b < known.size(); ++b) {
    if (!std::isnan(known[b])) {
      numbers.predicted.push_back(scores.logits[b]);
      numbers.known.push_back(known[b]);
    }
    if (each) each({.row = first_row + static_cast<std::int64_t>(b), .score = scores.logits[b], .known = known[b]});
  }
}

void add_clicks(const data::Batch& batch, const Scores& scores, std::int64_t first_row, ClickScores& clicks,
                const std::function<void(const Prediction&)>& each) {
  const auto labels = batch["labels"].as<const std::int32_t>();
  for (std::size_t b = 0; b < labels.size(); ++b) {
    const double logit = scores.logits[b];
    if (labels[b] >= 0)
      clicks.logits.push_back(static_cast<float>(logit)), clicks.labels.push_back(labels[b] == 1 ? 1 : 0);
    if (each)
      each({.row = first_row + static_cast<std::int64_t>(b),
            .label = labels[b],
            .predicted = logit > 0 ? 1 : 0,
            .probability = 1 / (1 + std::exp(-logit))});
  }
}

}  // namespace

void check_answer(const Scores& scores) {
  // x - x is 0 unless x is infinite or NaN. Eight sums of it take less time than a test of each number.
  const auto finite = [](std::span<const double> values) {
    std::array<double, 8> sums{};
    std::size_t i = 0;
    for (; i + sums.size() <= values.size(); i += sums.size())
      for (std::size_t k = 0; k < sums.size(); ++k) sums[k] += values[i + k] - values[i + k];
    for (; i < values.size(); ++i) sums[0] += values[i] - values[i];
    return std::all_of(sums.begin(), sums.end(), [](double sum) { return sum == 0; });
  };
  if (!std::isfinite(scores.loss) || !finite(scores.logits) || !finite(scores.embedding))
    fail_run(
        "[model] its answer is not a finite number; config.json or the weights are damaged, or the training diverged: "
        "use another checkpoint");
}

Evaluation evaluate(Engine& engine, const std::shared_ptr<const data::Dataset>& dataset,
                    const EvaluationOptions& options, const std::function<void(const Prediction&)>& each) {
  const double start = wall_seconds();
  data::LoaderOptions loading;
  loading.batch = options.batch;
  loading.seed = options.seed;
  loading.shuffle = false;
  loading.mask_probability = options.mask_probability;
  loading.whole_words = options.whole_words;
  loading.threads = options.threads;
  loading.stride = options.stride;
  loading.stops = true;
  const std::unique_ptr<data::Loader> loader = data::Loader::open(dataset, loading);
  Evaluation result;
  result.task = dataset->spec().task;
  const bool confuses = data::has_one_class(result.task);
  // Without labels only the teacher's loss is measured. It is a loss per sequence. Pairs need no labels.
  const bool unlabelled = options.teach && !predicts_words(result.task) && result.task != data::Task::pairs &&
                          dataset->spec().label.empty();
  result.labelled = !unlabelled;
  Numbers numbers;
  ClickScores clicks;
  SetScores sets;
  const std::size_t classes = confuses ? dataset->labels().size() : 0;
  result.confusion.assign(classes, std::vector<std::int64_t>(classes));
  double loss = 0, correct = 0;
  data::Batch batch;
  std::optional<TaskProgress> task;
  if (!options.task.empty()) task.emplace(options.task, loader->reach().of, loader->reach().unit);
  for (std::int64_t row = 0; loader->next(batch); row += batch.sequences) {
    if (options.teach) options.teach(batch);
    const Scores scores = engine.evaluate(batch);
    if (options.require_finite) check_answer(scores);
    loss += scores.loss;
    correct += scores.correct;
    result.counted += unlabelled ? batch.sequences : batch.counted;
    if (result.task == data::Task::classify || result.task == data::Task::image)
      add_classified(batch, scores, row, result, each);
    if (result.task == data::Task::tag) add_tagged(batch, scores, row, result, each);
    if (result.task == data::Task::multilabel) add_sets(batch, scores, row, sets, each);
    if (result.task == data::Task::regression) add_numbers(batch, scores, row, numbers, each);
    if (result.task == data::Task::pairs) {
      result.candidates = std::max(result.candidates, batch.counted);
      result.fewest_candidates = row == 0 ? batch.counted : std::min(result.fewest_candidates, batch.counted);
    }
    if (result.task == data::Task::ctr) add_clicks(batch, scores, row, clicks, each);
    if (each && predicts_words(result.task)) each({.row = row, .tokens = batch.counted, .loss = scores.loss});
    if (task) task->done(loader->reach().done);
  }
  const double counted = static_cast<double>(std::max<std::int64_t>(result.counted, 1));
  result.loss = loss / counted;
  result.accuracy = correct / counted;
  if (confuses) result.classes = class_metrics(result.confusion);
  result.sets = sets.metrics();
  result.scores = score_metrics(numbers.predicted, numbers.known);
  result.clicks = click_metrics(clicks);
  if (options.bootstrap > 0) add_bootstrap_errors(clicks, options.bootstrap, options.seed, result.clicks);
  result.seconds = wall_seconds() - start;
  return result;
}

}  // namespace comera::engine
