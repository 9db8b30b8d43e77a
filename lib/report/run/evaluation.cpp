#include "lib/report/run/evaluation.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "lib/core/error.h"
#include "lib/core/join.h"
#include "lib/core/reals.h"
#include "lib/core/terminal/log.h"
#include "lib/core/units.h"

namespace comera::report {
namespace {

std::vector<std::pair<std::string, double>> metrics_of(const EvaluationReport& evaluation) {
  const engine::Evaluation& result = evaluation.result;
  if (evaluation.task == data::Task::regression) {
    const engine::ScoreMetrics& scores = result.scores;
    return {{"spearman", scores.spearman},
            {"pearson", scores.pearson},
            {"rmse", scores.rmse()},
            {"mse", scores.mse},
            {"loss", result.loss}};
  }
  if (evaluation.task == data::Task::ctr) {
    const engine::ClickMetrics& clicks = result.clicks;
    return {{"auc", clicks.auc},
            {"auc_error", clicks.auc_error},
            {"nce", clicks.nce},
            {"nce_error", clicks.nce_error},
            {"calibration", clicks.calibration},
            {"accuracy", result.accuracy},
            {"loss", result.loss}};
  }
  std::vector<std::pair<std::string, double>> metrics = {{"accuracy", result.accuracy}, {"loss", result.loss}};
  if (data::has_one_class(evaluation.task))
    metrics.insert(metrics.begin() + 1, {{"f1", result.classes.f1}, {"matthews", result.classes.matthews}});
  if (evaluation.task == data::Task::multilabel)
    metrics.insert(
        metrics.begin() + 1,
        {{"micro_f1", result.sets.micro_f1}, {"macro_f1", result.sets.macro_f1}, {"exact", result.sets.exact}});
  if (predicts_words(evaluation.task)) metrics.emplace_back("perplexity", evaluation.perplexity());
  return metrics;
}

const char* counted_words(data::Task task) {
  switch (task) {
    case data::Task::mlm:
    case data::Task::clm: return "predicted tokens";
    case data::Task::multilabel: return "decisions";
    case data::Task::tag: return "words";
    case data::Task::pairs: return "pairs";
    default: return "examples";
  }
}

// The sentence on what the data lacks, for a measure without a value; "": not known.
std::string what_is_missing(const EvaluationReport& evaluation) {
  const engine::ClickMetrics& clicks = evaluation.result.clicks;
  if (evaluation.task == data::Task::ctr)
    return fmt::format("it needs examples with a click and without, and {} of {} have one; give --data with both",
                       clicks.clicks, clicks.count);
  if (evaluation.task == data::Task::regression)
    return fmt::format("it needs two examples or more, of different labels and answers, and {} came; give more --data",
                       evaluation.result.scores.count);
  return "";
}

bool holds(double value, const std::string& relation, double bound) {
  if (relation == ">=") return value >= bound;
  if (relation == ">") return value > bound;
  return relation == "<=" ? value <= bound : value < bound;
}

}  // namespace

double EvaluationReport::perplexity() const { return std::exp(result.loss); }

Table summary_table(const EvaluationReport& evaluation) {
  Table table;
  table.columns = {{"examples", counted_words(evaluation.task), Unit::count}};
  table.rows.push_back({evaluation.result.counted});
  if (evaluation.task == data::Task::pairs) {
    table.columns.push_back({"candidates", "candidates", Unit::count});
    table.rows[0].emplace_back(evaluation.result.candidates);
  }
  for (const auto& [name, value] : metrics_of(evaluation)) {
    if (evaluation.task == data::Task::regression && name == "loss") continue;  // equals the mean squared error
    table.columns.push_back({name, name, name == "accuracy" ? Unit::share : Unit::plain});
    table.rows[0].emplace_back(value);
  }
  return table;
}

Table confusion_table(const EvaluationReport& evaluation) {
  Table table;
  table.columns = {{"label", "label \\ predicted"}};
  for (const std::string& label : evaluation.labels) table.columns.push_back({label, printable(label)});
  for (std::size_t row = 0; row < evaluation.labels.size(); ++row) {
    auto& cells = table.rows.emplace_back();
    cells.emplace_back(evaluation.labels[row]);
    for (const std::int64_t count : evaluation.result.confusion[row]) cells.emplace_back(count);
  }
  return table;
}

Table label_table(const EvaluationReport& evaluation) {
  const auto& confusion = evaluation.result.confusion;
  Table table;
  table.columns = {{"label", "label"},
                   {"examples", "examples", Unit::count},
                   {"recall", "recall", Unit::share},
                   {"precision", "precision", Unit::share},
                   {"taken_for", "most often taken for"}};
  const auto share = [](std::int64_t part, std::int64_t all) {
    return all ? Cell(static_cast<double>(part) / static_cast<double>(all)) : Cell();
  };
  for (std::size_t label = 0; label < confusion.size(); ++label) {
    std::int64_t examples = 0, predicted = 0;
    std::size_t other = label == 0 ? 1 : 0;
    for (std::size_t i = 0; i < confusion.size(); ++i) {
      examples += confusion[label][i];
      predicted += confusion[i][label];
      if (i != label && confusion[label][i] > confusion[label][other]) other = i;
    }
    const bool mistaken = other < confusion.size() && confusion[label][other] > 0;
    table.rows.push_back(
        {evaluation.labels[label], examples, share(confusion[label][label], examples),
         share(confusion[label][label], predicted),
         mistaken ? Cell(fmt::format("{} ({})", evaluation.labels[other], confusion[label][other])) : Cell()});
  }
  return table;
}

Table calibration_table(const EvaluationReport& evaluation) {
  Table table;
  table.columns = {{"examples", "examples", Unit::count},
                   {"predicted", "mean probability", Unit::plain},
                   {"observed", "share of clicks", Unit::plain}};
  for (const engine::CalibrationBin& bin : evaluation.result.clicks.bins)
    table.rows.push_back({bin.count, bin.predicted, bin.observed});
  return table;
}

Json to_json(const EvaluationReport& evaluation) {
  Json json = document("evaluate");
  json["task"] = data::name_of(evaluation.task);
  json["examples"] = evaluation.result.counted;
  for (const auto& [name, value] : metrics_of(evaluation)) json[name] = to_json(Cell(value));
  if (evaluation.task == data::Task::pairs)
    json["candidates"] = evaluation.result.candidates, json["fewest_candidates"] = evaluation.result.fewest_candidates;
  if (evaluation.task == data::Task::ctr) json["calibration_curve"] = to_json(calibration_table(evaluation));
  if (!data::has_one_class(evaluation.task)) return json;
  json["labels"] = evaluation.labels;
  json["confusion"] = evaluation.result.confusion;
  return json;
}

Requirement parse_requirement(const std::string& text, const std::vector<std::string>& metrics) {
  const std::size_t begin = text.find_first_of("<>");
  const std::size_t end = begin == std::string::npos ? begin : text.find_first_not_of("<>=", begin);
  const auto trimmed = [](std::string part) {
    std::erase(part, ' ');
    return part;
  };
  const std::string relation = end == std::string::npos ? "" : text.substr(begin, end - begin);
  const auto bound = end == std::string::npos ? std::nullopt : parse_real(trimmed(text.substr(end)));
  if (!bound || (relation != ">=" && relation != ">" && relation != "<=" && relation != "<"))
    fail_input("[evaluate] --require '{}': expected a metric, one of >= > <= <, and a number, such as accuracy>=0.8",
               text);
  const std::string name = trimmed(text.substr(0, begin));
  if (std::find(metrics.begin(), metrics.end(), name) == metrics.end())
    fail_input("[evaluate] --require '{}': there is no metric '{}'; use {}", text, name, join(metrics, ", "));
  return {text, name, relation, *bound};
}

Requirement parse_requirement(const std::string& text, data::Task task) {
  std::vector<std::string> names{"spearman", "spearman_error", "pearson"};
  if (task != data::Task::embed) {
    names.clear();
    for (const auto& [name, value] : metrics_of({task, {}, {}})) names.push_back(name);
  }
  return parse_requirement(text, names);
}

void require_metric(const EvaluationReport& evaluation, const Requirement& requirement) {
  require_metric(metrics_of(evaluation), requirement, what_is_missing(evaluation));
}

void require_metric(const std::vector<Metric>& metrics, const Requirement& requirement, const std::string& missing) {
  const auto found =
      std::ranges::find_if(metrics, [&](const Metric& metric) { return metric.first == requirement.metric; });
  if (found == metrics.end() || std::isnan(found->second))
    fail_run("[evaluate] --require {} is not met: {} has no value on this data{}{}", requirement.text,
             requirement.metric, missing.empty() ? "" : "; ", missing);
  if (!holds(found->second, requirement.relation, requirement.bound))
    fail_run("[evaluate] --require {} is not met: {} is {}", requirement.text, requirement.metric,
             format_digits(found->second, 6));
}

void require_metric(const EvaluationReport& evaluation, const std::string& requirement) {
  require_metric(evaluation, parse_requirement(requirement, evaluation.task));
}

}  // namespace comera::report
