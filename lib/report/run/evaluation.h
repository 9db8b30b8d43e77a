// The quality of a model on data, for `comera evaluate`.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lib/engine/evaluate.h"
#include "lib/report/output/json.h"

namespace comera::report {

struct EvaluationReport {
  data::Task task = data::Task::classify;
  std::vector<std::string> labels;  // classify, multilabel, tag, image
  engine::Evaluation result;

  double perplexity() const;  // mlm, clm
};

Table summary_table(const EvaluationReport& evaluation);
Table confusion_table(const EvaluationReport& evaluation);  // a row per label, a column per prediction
// A row per label: recall, precision, and the most frequent wrong prediction.
Table label_table(const EvaluationReport& evaluation);
Table calibration_table(const EvaluationReport& evaluation);  // ctr: parts of the examples by probability
Json to_json(const EvaluationReport& evaluation);

// "accuracy>=0.8": >=, >, <= or < between a metric's name and a number.
struct Requirement {
  std::string text, metric, relation;
  double bound;
};
// Throws InputError if the text has another form or the task has no such metric.
Requirement parse_requirement(const std::string& text, data::Task task);
// The same for other reports with these metrics.
Requirement parse_requirement(const std::string& text, const std::vector<std::string>& metrics);
// Throws RunError with the value if the requirement does not hold.
void require_metric(const EvaluationReport& evaluation, const Requirement& requirement);
void require_metric(const EvaluationReport& evaluation, const std::string& requirement);

// The same for other reports: names and values. `missing`: what the data lacks if the value is NaN; "": not known.
using Metric = std::pair<std::string, double>;
void require_metric(const std::vector<Metric>& metrics, const Requirement& requirement,
                    const std::string& missing = "");

}  // namespace comera::report
