// The quality of a model on data, as `comera evaluate` reports it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lib/report/json.h"
#include "lib/train/evaluate.h"

namespace comera::report {

struct EvaluationReport {
  data::Task task = data::Task::classify;
  std::vector<std::string> labels;  // classify
  train::Evaluation result;

  double perplexity() const;  // mlm, clm
};

Table summary_table(const EvaluationReport& evaluation);
Table confusion_table(const EvaluationReport& evaluation);  // a row per label, a column per prediction
Table label_table(
    const EvaluationReport& evaluation);  // a row per label: recall, precision, what it was most often taken for
Json to_json(const EvaluationReport& evaluation);

// "accuracy>=0.8": >=, >, <= or < between a metric's name and a number.
struct Requirement {
  std::string text, metric, relation;
  double bound;
};
// InputError when it is not written so or the task has no such metric.
Requirement parse_requirement(const std::string& text, data::Task task);
// The same for other reports, whose metrics are called so.
Requirement parse_requirement(const std::string& text, const std::vector<std::string>& metrics);
// RunError, naming the value, when it does not hold.
void require_metric(const EvaluationReport& evaluation, const Requirement& requirement);
void require_metric(const EvaluationReport& evaluation, const std::string& requirement);

// The same for other reports: names and values.
using Metric = std::pair<std::string, double>;
void require_metric(const std::vector<Metric>& metrics, const Requirement& requirement);

}  // namespace comera::report
