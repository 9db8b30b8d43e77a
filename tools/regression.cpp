#include "tools/regression.h"

#include <algorithm>

#include "lib/core/error.h"
#include "lib/core/terminal/log.h"
#include "lib/train/train_options.h"

namespace comera::tools {
namespace {

template <class Change>
void change(engine::Weights& weights, const std::string& name, const Change& to) {
  const layers::Parameter* parameter = weights.model().parameters().find(name);
  COMERA_CHECK(parameter != nullptr);
  const engine::HostBytes host(weights.machine(), parameter->value);
  std::vector<std::byte> bytes(host.bytes().begin(), host.bytes().end());
  plan::Tensor copy = parameter->value;
  copy.data = bytes.data();
  for (std::int64_t i = 0; i < copy.elements(); ++i) layers::store(copy, i, to(layers::load(copy, i)));
  engine::write(weights.machine(), parameter->value, bytes);
}

}  // namespace

bool has_label_column(const OptionValues& values) {
  if (values.list("data").empty()) return false;
  data::DataSpec spec = train::data_spec(values, values.list("data"));
  spec.label = values.text("label");
  return data::has_labels(spec);
}

data::Task task_of_labels(const OptionValues& values, const std::vector<std::string>& known) {
  if (values.list("data").empty()) return data::Task::classify;
  data::DataSpec spec = train::data_spec(values, values.list("data"));
  spec.label = values.text("label");
  const data::LabelSurvey survey = data::survey_labels(spec);
  if (survey.kind == data::LabelKind::classes || std::find(known.begin(), known.end(), survey.example) != known.end())
    return data::Task::classify;
  log_info(
      "labels of column '{}' are real numbers, such as {}: --task regression (--task classify makes a class of each)",
      spec.label, printable(survey.example));
  return data::Task::regression;
}

void tell_whole_numbers(const OptionValues& values, const std::vector<std::string>& labels) {
  constexpr std::size_t few = 20;
  if (values.given("task") || labels.size() <= few || !std::all_of(labels.begin(), labels.end(), data::is_whole_number))
    return;
  log_info("the {} whole numbers of column '{}' become one class each; --task regression learns them as numbers",
           labels.size(), values.text("label"));
}

data::ScoreMoments moments_to_learn(const OptionValues& values, const data::TextDataset& dataset) {
  const data::ScoreMoments moments = data::moments_of_scores(dataset);
  if (moments.count > 0 && moments.deviation == 0)
    fail_input("[data] {}: every label of column '{}' is {:g}; a regression needs labels that differ",
               dataset.files().front(), values.text("label"), moments.mean);
  return moments;
}

void start_head(const models::ModelSpec& spec, const data::ScoreMoments& scores, engine::Weights& weights) {
  if (scores.count == 0) return;
  const models::EncoderNames names(std::get<models::EncoderSpec>(spec));
  change(weights, names.classifier + ".bias", [&](double) { return scores.mean; });
  change(weights, names.classifier + ".weight", [&](double weight) { return weight * scores.deviation; });
}

}  // namespace comera::tools
