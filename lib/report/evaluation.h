// How good a model is on data: what `comera evaluate` says.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "lib/data/loader.h"
#include "lib/report/json.h"
#include "lib/train/step.h"

namespace comera::report {

// Of one example of a classification: the class that was predicted, and its probability.
struct Prediction {
  std::int32_t label = -1;  // -1: not known
  std::int32_t predicted = 0;
  double probability = 0;
};

struct Evaluation {
  data::Task task = data::Task::classify;
  std::int64_t examples = 0;                         // with a label; mlm: predicted tokens
  double loss = 0, accuracy = 0;                     // means over them
  std::vector<std::string> labels;                   // classify
  std::vector<std::vector<std::int64_t>> confusion;  // [label][predicted]

  double perplexity() const;
};

// The softmax of a row of logits at one class.
double probability_of(std::span<const double> logits, std::int32_t predicted);

// One pass in the order of the files. `each` (optional) is called for every example of a classification, in that order.
Evaluation evaluate(train::Engine& engine, data::Loader& loader, data::Task task, const std::vector<std::string>& labels,
                    const std::function<void(const Prediction&)>& each = {});

Table summary_table(const Evaluation& evaluation);
Table confusion_table(const Evaluation& evaluation);  // a row per label, a column per prediction
Json to_json(const Evaluation& evaluation);

// "accuracy>=0.8": >=, >, <= or < between a metric's name and a number. InputError when it is not written so or there is no such metric;
// RunError, naming the value, when it does not hold.
void require_metric(const Evaluation& evaluation, const std::string& requirement);

}  // namespace comera::report
