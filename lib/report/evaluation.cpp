#include "lib/report/evaluation.h"

#include <algorithm>
#include <cmath>

#include "lib/core/error.h"
#include "lib/core/units.h"

namespace comera::report {
namespace {

std::vector<std::pair<std::string, double>> metrics_of(const Evaluation& evaluation) {
  std::vector<std::pair<std::string, double>> metrics = {{"accuracy", evaluation.accuracy}, {"loss", evaluation.loss}};
  if (evaluation.task == data::Task::mlm) metrics.emplace_back("perplexity", evaluation.perplexity());
  return metrics;
}

Prediction prediction_of(const data::Batch& batch, const train::Scores& scores, std::size_t row) {
  const std::size_t classes = scores.logits.size() / static_cast<std::size_t>(batch.sequences);
  const std::int32_t predicted = scores.best[row];
  return {batch["labels"].as<std::int32_t>()[row], predicted, probability_of(scores.logits.subspan(row * classes, classes), predicted)};
}

bool holds(double value, const std::string& relation, double bound) {
  if (relation == ">=") return value >= bound;
  if (relation == ">") return value > bound;
  return relation == "<=" ? value <= bound : value < bound;
}

}  // namespace

double Evaluation::perplexity() const { return std::exp(loss); }

double probability_of(std::span<const double> logits, std::int32_t predicted) {
  const double best = logits[static_cast<std::size_t>(predicted)];
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit - best);
  return 1 / sum;
}

Evaluation evaluate(train::Engine& engine, data::Loader& loader, data::Task task, const std::vector<std::string>& labels,
                    const std::function<void(const Prediction&)>& each) {
  Evaluation sums{.task = task, .labels = labels};
  sums.confusion.assign(labels.size(), std::vector<std::int64_t>(labels.size(), 0));
  data::Batch batch;
  while (loader.next(batch)) {
    const train::Scores scores = engine.evaluate(batch);
    sums.examples += batch.counted;
    sums.loss += scores.loss;
    sums.accuracy += scores.correct;
    if (task != data::Task::classify) continue;
    for (std::size_t row = 0; row < static_cast<std::size_t>(batch.sequences); ++row) {
      const Prediction prediction = prediction_of(batch, scores, row);
      if (prediction.label >= 0) ++sums.confusion[static_cast<std::size_t>(prediction.label)][static_cast<std::size_t>(prediction.predicted)];
      if (each) each(prediction);
    }
  }
  const double count = sums.examples > 0 ? static_cast<double>(sums.examples) : NAN;
  sums.loss /= count;
  sums.accuracy /= count;
  return sums;
}

Table summary_table(const Evaluation& evaluation) {
  Table table;
  table.columns = {{"examples", evaluation.task == data::Task::mlm ? "predicted tokens" : "examples", Unit::count}};
  table.rows.push_back({evaluation.examples});
  for (const auto& [name, value] : metrics_of(evaluation)) {
    table.columns.push_back({name, name, name == "accuracy" ? Unit::share : Unit::plain});
    table.rows[0].emplace_back(value);
  }
  return table;
}

Table confusion_table(const Evaluation& evaluation) {
  Table table;
  table.columns = {{"label", "label \\ predicted"}};
  for (const std::string& label : evaluation.labels) table.columns.push_back({label, label});
  for (std::size_t row = 0; row < evaluation.labels.size(); ++row) {
    auto& cells = table.rows.emplace_back();
    cells.emplace_back(evaluation.labels[row]);
    for (const std::int64_t count : evaluation.confusion[row]) cells.emplace_back(count);
  }
  return table;
}

Json to_json(const Evaluation& evaluation) {
  Json json = document("evaluate");
  json["task"] = evaluation.task == data::Task::mlm ? "mlm" : "classify";
  json["examples"] = evaluation.examples;
  for (const auto& [name, value] : metrics_of(evaluation)) json[name] = to_json(Cell(value));
  if (evaluation.task == data::Task::mlm) return json;
  json["labels"] = evaluation.labels;
  json["confusion"] = evaluation.confusion;
  return json;
}

void require_metric(const Evaluation& evaluation, const std::string& requirement) {
  const std::size_t begin = requirement.find_first_of("<>");
  const std::size_t end = begin == std::string::npos ? begin : requirement.find_first_not_of("<>=", begin);
  const auto trimmed = [](std::string text) {
    std::erase(text, ' ');
    return text;
  };
  const std::string name = trimmed(requirement.substr(0, begin)), relation = end == std::string::npos ? "" : requirement.substr(begin, end - begin);
  const auto bound = end == std::string::npos ? std::nullopt : parse_real(trimmed(requirement.substr(end)));
  if (!bound || (relation != ">=" && relation != ">" && relation != "<=" && relation != "<"))
    fail_input("[evaluate] --require '{}': expected a metric, one of >= > <= <, and a number, such as accuracy>=0.8", requirement);
  for (const auto& [metric, value] : metrics_of(evaluation)) {
    if (metric != name) continue;
    if (!holds(value, relation, *bound)) fail_run("[evaluate] --require {} is not met: {} is {:.6g}", requirement, name, value);
    return;
  }
  fail_input("[evaluate] --require '{}': there is no metric '{}'; use accuracy, loss, or (mlm) perplexity", requirement, name);
}

}  // namespace comera::report
