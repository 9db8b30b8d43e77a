// `comera predict`.

#include <utility>

#include "lib/core/error.h"
#include "lib/core/join.h"
#include "lib/core/terminal/log.h"
#include "lib/data/files/table.h"
#include "lib/engine/evaluate.h"
#include "tools/clicks.h"
#include "tools/generation.h"
#include "tools/images.h"
#include "tools/input_texts.h"
#include "tools/sentences.h"
#include "tools/stored_model.h"
#include "tools/verbs.h"

namespace comera::tools {
namespace {

using Rows = std::vector<std::vector<std::string>>;

// The predictions of each row: one, or one per word (tag).
using Predictions = std::vector<std::vector<engine::Prediction>>;

Predictions predict(StoredModel& stored, const OptionValues& values, const Rows& rows) {
  data::DataSpec spec;
  spec.task = models::common(stored.spec).task;
  spec.text.assign(rows.front().size(), "text");
  spec.max_length = values.integer("seq");
  const std::vector<std::int32_t> unknown(rows.size(), -1);
  const auto data = data::Dataset::from_rows(spec, stored.tokenizer, rows, unknown, models::common(stored.spec).labels);
  Predictions predictions(rows.size());
  engine::evaluate(
      *stored.engine, data, {.batch = values.integer("batch"), .task = ""},
      [&](const engine::Prediction& one) { predictions[static_cast<std::size_t>(one.row)].push_back(one); });
  return predictions;
}

// One prediction per word. Words beyond the longest sequence are read as a text of their own, and so on.
Predictions predict_words(StoredModel& stored, const OptionValues& values, const Rows& rows) {
  Predictions predictions = predict(stored, values, rows);
  for (;;) {
    Rows rest;
    std::vector<std::size_t> whose;
    for (std::size_t row = 0; row < rows.size(); ++row) {
      const std::vector<std::string_view> words = data::words_of(rows[row][0]);
      if (predictions[row].size() >= words.size()) continue;
      const std::string& text = rows[row][0];
      const std::ptrdiff_t begin = words[predictions[row].size()].data() - text.data();
      rest.push_back({text.substr(static_cast<std::size_t>(begin))});
      whose.push_back(row);
    }
    if (rest.empty()) return predictions;
    const Predictions more = predict(stored, values, rest);
    for (std::size_t i = 0; i < rest.size(); ++i) {
      COMERA_CHECK(!more[i].empty());  // the least --seq has room for one word
      predictions[whose[i]].insert(predictions[whose[i]].end(), more[i].begin(), more[i].end());
    }
  }
}

// `prediction` is null for an empty line, which has an empty answer.
void answer_class(Answers& answers, const std::vector<std::string>& labels, const engine::Prediction* prediction) {
  const std::string label = prediction ? labels[static_cast<std::size_t>(prediction->predicted)] : "";
  if (answers.plain())
    answers.line(prediction ? fmt::format("{}\t{:.6f}", printable(label), prediction->probability) : "");
  else if (prediction)
    answers.value({{"label", label}, {"probability", prediction->probability}});
  else
    answers.value({{"label", nullptr}, {"probability", nullptr}});
}

void answer_set(Answers& answers, const std::vector<std::string>& labels, const engine::Prediction* prediction) {
  if (answers.plain())
    return answers.line(prediction ? fmt::format("{}\t{:.6f}", printable(labels_of_set(labels, prediction->set)),
                                                 prediction->probability)
                                   : "");
  if (!prediction) return answers.value({{"labels", nullptr}, {"probability", nullptr}});
  report::Json found = report::Json::array();
  for (std::size_t i = 0; i < labels.size(); ++i)
    if (prediction->set[i]) found.push_back(labels[i]);
  answers.value({{"labels", found}, {"probability", prediction->probability}});
}

// The labels of the words of a text.
void answer_words(Answers& answers, const std::vector<std::string>& labels,
                  const std::vector<engine::Prediction>& words) {
  std::vector<std::string> found;
  for (const engine::Prediction& word : words) found.push_back(labels[static_cast<std::size_t>(word.predicted)]);
  if (answers.plain())
    answers.line(printable(join(found, " ")));
  else
    answers.value({{"labels", found}});
}

void answer_number(Answers& answers, const engine::Prediction* prediction) {
  if (answers.plain())
    answers.line(prediction ? fmt::format("{:.6g}", prediction->score) : "");
  else
    answers.value({{"score", prediction ? report::Json(prediction->score) : report::Json()}});
}

// `predictions` is empty for an empty line.
void answer(Answers& answers, const models::Spec& spec, const std::vector<engine::Prediction>& predictions) {
  const engine::Prediction* prediction = predictions.empty() ? nullptr : predictions.data();
  switch (spec.task) {
    case data::Task::regression: return answer_number(answers, prediction);
    case data::Task::multilabel: return answer_set(answers, spec.labels, prediction);
    case data::Task::tag: return answer_words(answers, spec.labels, predictions);
    default: return answer_class(answers, spec.labels, prediction);
  }
}

// A model that learned pairs answers single texts, too, and the other way round, with labels that mean nothing.
void compare_with_training(const StoredModel& stored, const InputText& text) {
  const auto columns = stored.reading.find("text");
  if (columns == stored.reading.end()) return;
  const bool learned_pairs = columns->second.find(',') != std::string::npos, pair = text.texts.size() > 1;
  if (learned_pairs == pair) return;
  log_warning("[predict] {} learned {} (--text {}), but {}; its answers may mean nothing", stored.folder,
              learned_pairs ? "pairs of texts" : "single texts", printable(columns->second),
              pair ? "pairs came; a tab separates two texts" : "single texts came");
}

// Prints the label or number of every text, and flushes when the input pauses.
void label_texts(const OptionValues& values, StoredModel& stored) {
  const models::Spec& spec = models::common(stored.spec);
  InputTexts input(values, true);
  Answers answers(values, "predictions", "prediction");
  bool compared = false;
  for (std::vector<InputText> texts; input.next(texts, static_cast<std::size_t>(values.integer("batch")));) {
    Rows rows;
    for (const InputText& text : texts) {
      if (text.empty()) continue;
      if (!std::exchange(compared, true)) compare_with_training(stored, text);
      rows.push_back(text.texts);
    }
    const bool tags = spec.task == data::Task::tag;
    const Predictions predictions = rows.empty() ? Predictions()
                                    : tags       ? predict_words(stored, values, rows)
                                                 : predict(stored, values, rows);
    for (auto next = predictions.begin(); const InputText& text : texts)
      answer(answers, spec, text.empty() ? std::vector<engine::Prediction>() : *next++);
    answers.flush();
  }
  answers.finish();
}

void refuse_without_effect_on(const OptionValues& values, const StoredModel& stored) {
  refuse_options_of_texts(values, models::common(stored.spec).task);
  refuse_options(values, {"label", "document-end"}, "the answers need neither labels nor an end of the text");
  if (std::holds_alternative<models::DecoderSpec>(stored.spec))
    return refuse_options(values, {"seq", "batch"},
                          "texts are continued one by one, and are as long as the model's positions allow");
  refuse_options(
      values, {"max-tokens", "temperature", "top-p", "seed", "system", "chat"},
      fmt::format("{} is {}, and decoders alone continue texts", stored.folder, models::kind_of(stored.spec)));
}

}  // namespace

OptionTable predict_table() {
  OptionTable table(
      "predict",
      "label, score or embed lines of standard input (one text each, or two with a tab between) or rows "
      "of files, or continue their text (decoders); an empty or blank line has an empty answer; models of "
      "clicks print the probability of a click for each row, models of images the class of each image (a path "
      "per line, or --data)");
  table.positional({.name = "MODEL", .help = "a run folder, a model folder, or a GGUF file"})
      .add(line_options())
      .add({adapter_option()})
      .add(machine_options())
      .add(precision_options());
  table.add(generation_options())
      .add({{.name = "npy",
             .type = OptionType::path,
             .group = "Output",
             .help = "write the embeddings of the lines as a NumPy array; the row of an empty or blank line is NaN",
             .metavar = "FILE",
             .in_config = false,
             .files = FileUse::written}})
      .add(answer_options());
  table.add(common_options())
      .synonyms({"generate", "infer", "inference", "embed", "encode", "classify", "run", "complete", "chat", "serve",
                 "sample", "sampling"});
  table.common({"data", "max-tokens", "chat", "system", "temperature", "top-p", "npy", "jsonl", "json", "tokenizer"});
  table.example("echo 'Once upon a time' | comera predict stories --max-tokens 100 --temperature 0.8 --top-p 0.9");
  table.example("comera predict run --data reviews.csv --text body --jsonl > labels.jsonl");
  return table.example("printf 'A man sleeps.\\tSomebody rests.\\n' | comera predict run");
}

int run_predict(const OptionValues& given) {
  OptionValues values = given;
  StoredModel stored = open_stored_model(values, values.positionals()[0]);
  refuse_without_effect_on(values, stored);
  if (stored.features) {
    if (values.has("npy")) fail_input("[predict] --npy: a model of clicks has no embeddings of texts");
    return predict_clicks(values, stored);
  }
  if (stored.frame) {
    if (values.has("npy")) fail_input("[predict] --npy: a model of images has no embeddings of texts");
    return predict_images(values, stored);
  }
  const bool decoder = std::holds_alternative<models::DecoderSpec>(stored.spec);
  if (!decoder && models::common(stored.spec).task == data::Task::embed) return embed_lines(values, stored);
  if (values.has("npy"))
    fail_input("[predict] --npy: {} is a {}; only embeddings are written to such a file", stored.folder,
               decoder                                                      ? "decoder"
               : models::common(stored.spec).task == data::Task::regression ? "regression"
                                                                            : "classifier");
  if (decoder) return generate_lines(values, stored);
  if (models::common(stored.spec).task == data::Task::mlm)
    fail_input("[predict] {}: is a masked language model and predicts no labels", stored.folder);
  label_texts(values, stored);
  return 0;
}

}  // namespace comera::tools
