// Evaluates a model on a data set: loss, accuracy and the confusion of labels, or the errors of numbers.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/data/loader.h"
#include "lib/engine/class_metrics.h"
#include "lib/engine/click_metrics.h"
#include "lib/engine/engine.h"
#include "lib/engine/score_metrics.h"

namespace comera::engine {

// Embeddings and regression outputs have no right or wrong answer, and no answer is known where labels are not read.
constexpr bool has_accuracy(data::Task task, bool labelled) {
  return task != data::Task::embed && task != data::Task::regression && (labelled || !data::learns_labels(task));
}

struct Evaluation {
  data::Task task = data::Task::classify;
  bool labelled = true;  // false: no labels were read, and the loss is the teacher's alone
  double loss = 0;       // mean over `counted`
  // Share of examples (classify), of decisions (multilabel), of words (tag), of first texts whose own second text is
  // the nearest of their batch (pairs), or of predicted tokens (mlm, clm); see has_accuracy().
  double accuracy = 0;
  // Examples with a known label, or all examples of data without labels. 0: loss and accuracy are undefined.
  std::int64_t counted = 0;
  Confusion confusion;   // classify, tag, image
  ClassMetrics classes;  // the same
  SetMetrics sets;       // multilabel
  ScoreMetrics scores;   // regression: over the examples with a known number
  ClickMetrics clicks;   // ctr
  // pairs: the number of second texts that a first text was compared with, its own among them: the pairs of its batch.
  // The last batch may have fewer, among which the own text is the nearest more often.
  std::int64_t candidates = 0, fewest_candidates = 0;
  double seconds = 0;
};
constexpr bool has_accuracy(const Evaluation& one) { return has_accuracy(one.task, one.labelled); }

// The result for one example: a class or a number. For language models: the likelihood of one micro-batch.
struct Prediction {
  std::int64_t row = 0;     // in the order of the data
  std::int32_t label = -1;  // -1: not known
  std::int32_t predicted = 0;
  std::vector<std::uint8_t> set = {};        // multilabel: by label, 1 if it is predicted
  std::vector<std::uint8_t> known_set = {};  // the same for the right labels; empty if they are not known
  double probability = 0;   // of `predicted`; multilabel: of the predicted set, by independent labels; ctr: of a click
  double score = 0;         // regression: the predicted number
  double known = NAN;       // regression: the right number if it is known
  std::int64_t tokens = 0;  // mlm, clm: predicted tokens
  double loss = 0;          // mlm, clm: minus the sum of their log-likelihoods
};

struct EvaluationOptions {
  std::int64_t batch = 32;
  std::uint64_t seed = 0;  // of the masks (mlm)
  double mask_probability = 0.15;
  bool whole_words = false;  // mlm
  std::int64_t stride = 0;   // clm: see data::LoaderOptions
  int threads = 1;
  // Adds the targets of a teacher to every batch. The loss against the teacher is then part of the loss.
  std::function<void(data::Batch&)> teach = {};
  bool require_finite = true;       // see check_answer()
  int bootstrap = 0;                // ctr: draws for the errors of the metrics
  std::string task = "evaluating";  // name on the live line; "": no live line
};

// One pass over the data in its order. Throws Stopped on a signal. `each` is called for every example, for every
// word (tag: all words of a row one after another), or every micro-batch (mlm, clm).
Evaluation evaluate(Engine& engine, const std::shared_ptr<const data::Dataset>& dataset,
                    const EvaluationOptions& options, const std::function<void(const Prediction&)>& each = {});

}  // namespace comera::engine
