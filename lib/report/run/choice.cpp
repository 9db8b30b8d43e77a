#include "lib/report/run/choice.h"

#include <fmt/core.h>

namespace comera::report {
namespace {

std::vector<Metric> metrics_of(const engine::ChoiceEvaluation& evaluation) {
  return {{"accuracy", evaluation.by_sum},
          {"accuracy_per_token", evaluation.by_token},
          {"accuracy_per_byte", evaluation.by_byte}};
}

}  // namespace

const std::vector<std::string>& choice_metrics() {
  static const std::vector<std::string> names{"accuracy", "accuracy_per_token", "accuracy_per_byte"};
  return names;
}

Table to_table(const engine::ChoiceEvaluation& evaluation) {
  Table table;
  table.columns = {{"score", "choice by log-likelihood", Unit::plain},
                   {"accuracy", "accuracy", Unit::share},
                   {"error", "+-", Unit::share}};
  const char* const names[] = {"sum", "per token", "per byte"};
  for (std::size_t i = 0; const Metric& metric : metrics_of(evaluation))
    table.rows.push_back({std::string(names[i++]), metric.second, evaluation.error(metric.second)});
  table.rows.push_back({std::string("guesses"), evaluation.chance, evaluation.error(evaluation.chance)});
  return table;
}

Json to_json(const engine::ChoiceEvaluation& evaluation) {
  Json json = document("evaluate");
  json["task"] = "choice";
  json["questions"] = evaluation.questions;
  for (const Metric& metric : metrics_of(evaluation)) {
    json[metric.first] = metric.second;
    json[metric.first + "_error"] = evaluation.error(metric.second);
  }
  json["chance"] = evaluation.chance;
  json["shortened"] = evaluation.shortened;
  json["seconds"] = evaluation.seconds;
  return json;
}

void require_metric(const engine::ChoiceEvaluation& evaluation, const Requirement& requirement) {
  require_metric(metrics_of(evaluation), requirement);
}

std::string choice_lines(std::span<const data::Question> questions, const engine::ChoiceEvaluation& evaluation) {
  std::string lines = "answer\tby_sum\tper_token\tper_byte\tlog_likelihoods\n";
  for (std::size_t q = 0; q < questions.size(); ++q) {
    const std::vector<engine::ChoiceLikelihood>& choices = evaluation.choices[q];
    lines += fmt::format("{}", questions[q].answer);
    for (const auto score : {engine::ChoiceScore::sum, engine::ChoiceScore::per_token, engine::ChoiceScore::per_byte})
      lines += fmt::format("\t{}", engine::best_choice(choices, score));
    for (std::size_t c = 0; c < choices.size(); ++c)
      lines += fmt::format("{}{:.6f}", c == 0 ? '\t' : ' ', choices[c].log_likelihood);
    lines += '\n';
  }
  return lines;
}

}  // namespace comera::report
