// The accuracy of a decoder on multiple-choice questions: `comera evaluate --task choice`.
#pragma once

#include "lib/engine/choice.h"
#include "lib/report/run/evaluation.h"

namespace comera::report {

Table to_table(const engine::ChoiceEvaluation& evaluation);
Json to_json(const engine::ChoiceEvaluation& evaluation);

// Metrics of --require: accuracy (by the sum of log-likelihoods), accuracy_per_token and accuracy_per_byte.
const std::vector<std::string>& choice_metrics();
void require_metric(const engine::ChoiceEvaluation& evaluation, const Requirement& requirement);

// A line per question: its answer, the choices found by sum, per token and per byte, then the log-likelihoods.
std::string choice_lines(std::span<const data::Question> questions, const engine::ChoiceEvaluation& evaluation);

}  // namespace comera::report
