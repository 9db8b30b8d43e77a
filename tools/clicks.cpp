#include "tools/clicks.h"

#include <fmt/core.h>

#include <cmath>
#include <numeric>

#include "lib/core/error.h"
#include "lib/core/terminal/log.h"
#include "lib/data/clicks/click_block.h"
#include "lib/data/clicks/click_dataset.h"
#include "lib/data/files/files.h"
#include "lib/engine/answer.h"
#include "models/presets.h"
#include "tools/input_texts.h"

namespace comera::tools {
namespace {

bool is_dlrm(const models::ModelSpec& spec) { return std::holds_alternative<models::DlrmSpec>(spec); }

const data::Schema& schema_of(const StoredModel& stored) { return std::get<models::DlrmSpec>(stored.spec).inputs; }

// Reads up to `most` rows.
data::ClickBlock take_rows(data::ClickReader& reader, const data::FeatureMap& map, std::int64_t most) {
  data::ClickBlock block;
  for (data::ClickRow row; block.rows() < most && reader.next(row);) block.add(row, map);
  return block;
}

void answer(Answers& answers, double logit) {
  const double probability = 1 / (1 + std::exp(-logit));
  if (answers.plain())
    answers.line(fmt::format("{:.6f}", probability));
  else
    answers.value({{"probability", probability}});
}

void answer_rows(data::ClickReader& reader, StoredModel& stored, std::int64_t batch, Answers& answers) {
  for (;;) {
    const data::ClickBlock block = take_rows(reader, *stored.features, batch);
    if (block.rows() == 0) return;
    std::vector<std::int64_t> rows(static_cast<std::size_t>(block.rows()));
    std::iota(rows.begin(), rows.end(), 0);
    data::Batch inputs;
    data::collate_clicks(block, rows, stored.features->schema(), 0, inputs);
    const engine::Scores scores = stored.engine->evaluate(inputs);
    engine::check_answer(scores);
    for (const double logit : scores.logits) answer(answers, logit);
    answers.flush();
  }
}

}  // namespace

bool learns_clicks(const OptionValues& values) {
  return values.text("task") == data::name_of(data::Task::ctr) ||
         (values.given("model") && is_dlrm(models::find_preset(values.text("model")).spec));
}

void settle_clicks(OptionValues& values) {
  if (!learns_clicks(values)) return;
  if (!values.given("task")) values.set("task", data::name_of(data::Task::ctr), OptionSource::fallback);
  if (!values.given("model")) values.set("model", "dlrm-small", OptionSource::fallback);
}

void open_clicks(const OptionValues& values, RunSetup& setup) {
  const auto data = data::ClickDataset::open(train::data_spec(values, values.list("data")));
  setup.features = data->map();
  setup.data = data;
  if (!values.list("dev").empty())
    setup.dev = data::ClickDataset::open(train::data_spec(values, values.list("dev")), setup.features);
}

std::shared_ptr<const data::Dataset> click_data(const OptionValues& values, const StoredModel& stored) {
  data::DataSpec spec;
  spec.files = values.list("data");
  spec.task = data::Task::ctr;
  return data::ClickDataset::open(spec, stored.features);
}

int predict_clicks(const OptionValues& values, StoredModel& stored) {
  using Labels = data::ClickReader::Labels;
  Answers answers(values, "predictions", "prediction");
  const std::int64_t batch = values.integer("batch");
  if (values.list("data").empty()) {
    data::ClickReader reader(data::ByteStream::standard_input(), "standard input", schema_of(stored), Labels::optional);
    answer_rows(reader, stored, batch, answers);
  }
  for (const std::string& file :
       values.list("data").empty() ? std::vector<std::string>() : data::resolve_files(values.list("data"))) {
    data::ClickReader reader(file, schema_of(stored), Labels::optional);
    answer_rows(reader, stored, batch, answers);
  }
  answers.finish();
  return 0;
}

}  // namespace comera::tools
