// `comera evaluate`.
#include <fmt/core.h>

#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "lib/core/join.h"
#include "lib/core/terminal/log.h"
#include "lib/data/files/table.h"
#include "lib/report/output/fit.h"
#include "lib/report/run/evaluation.h"
#include "tools/against.h"
#include "tools/choices.h"
#include "tools/clicks.h"
#include "tools/images.h"
#include "tools/sentences.h"
#include "tools/stored_model.h"
#include "tools/verbs.h"

namespace comera::tools {
namespace {

// Header of the predictions file: classes with their probability, numbers, or likelihoods.
const char* prediction_head(data::Task task) {
  if (data::predicts_words(task)) return "tokens\tloss\n";
  if (task == data::Task::ctr) return "label\tprobability\n";
  return task == data::Task::regression ? "label\tpredicted\n" : "label\tpredicted\tprobability\n";
}

std::string prediction_line(data::Task task, const std::vector<std::string>& labels,
                            const engine::Prediction& prediction) {
  if (data::predicts_words(task)) return fmt::format("{}\t{:.9g}\n", prediction.tokens, prediction.loss);
  if (task == data::Task::regression) return fmt::format("{:.9g}\t{:.9g}\n", prediction.known, prediction.score);
  if (task == data::Task::ctr) return fmt::format("{}\t{:.9g}\n", prediction.label, prediction.probability);
  if (task == data::Task::multilabel)
    return fmt::format("{}\t{}\t{:.6f}\n", labels_of_set(labels, prediction.known_set),
                       labels_of_set(labels, prediction.set), prediction.probability);
  const std::string label = prediction.label < 0 ? "" : labels[static_cast<std::size_t>(prediction.label)];
  return fmt::format("{}\t{}\t{:.6f}\n", label, labels[static_cast<std::size_t>(prediction.predicted)],
                     prediction.probability);
}

// Words of a tagged text beyond the longest sequence have no answer.
void tell_words_left_out(const data::TextDataset& data, const engine::Evaluation& result) {
  std::int64_t words = 0;
  for (std::int64_t row = 0; row < data.size(); ++row)
    words += static_cast<std::int64_t>(data::words_of(data.text(row, 0)).size());
  if (words > result.counted)
    log_warning(
        "{} of {} words lie beyond --seq {} tokens of their text and are not counted; give --seq more, or shorter rows",
        words - result.counted, words, data.spec().max_length);
}

// The accuracy depends on the number of second texts that each first text is compared with.
void check_candidates(const OptionValues& values, const engine::Evaluation& result) {
  const std::string data = join(values.list("data"), ", ");
  if (result.counted == 1)
    fail_input("[evaluate] {}: holds one pair, whose second text is the nearest of one; give two or more", data);
  if (result.fewest_candidates < result.candidates)
    log_warning(
        "the last {} of {} pairs are compared with {} second text{}, the others with {}, so that their accuracy is not "
        "the same measure; give a --batch that divides {}",
        result.fewest_candidates, result.counted, result.fewest_candidates, result.fewest_candidates == 1 ? "" : "s",
        result.candidates, result.counted);
}

report::EvaluationReport evaluate(const OptionValues& values, StoredModel& stored) {
  const std::vector<std::string>& labels = models::common(stored.spec).labels;
  const data::Task task = models::common(stored.spec).task;
  const std::shared_ptr<const data::Dataset> data =
      stored.features ? click_data(values, stored)
      : stored.frame  ? image_data(values, stored)
                     : data::Dataset::open(reading_spec(values, stored, values.list("data")), stored.tokenizer, labels);
  std::string predictions = prediction_head(task);
  const bool wanted = values.has("predictions");
  const auto each = [&](const engine::Prediction& prediction) {
    predictions += prediction_line(task, labels, prediction);
  };
  const engine::EvaluationOptions options{.batch = values.integer("batch"),
                                          .seed = static_cast<std::uint64_t>(values.integer("seed")),
                                          .mask_probability = values.real("mask-probability"),
                                          .whole_words = values.flag("whole-words"),
                                          .stride = values.has("stride") ? values.integer("stride") : 0,
                                          .bootstrap = engine::click_samples};
  report::EvaluationReport report{task, labels, {}};
  report.result =
      engine::evaluate(*stored.engine, data, options, wanted ? each : std::function<void(const engine::Prediction&)>());
  if (wanted) write_file_atomic(values.text("predictions"), predictions);
  if (task == data::Task::pairs) check_candidates(values, report.result);
  if (task == data::Task::tag) tell_words_left_out(dynamic_cast<const data::TextDataset&>(*data), report.result);
  return report;
}

// Perplexities with and without end tokens are over different tokens.
void tell_document_ends(const OptionValues& given, const OptionValues& values, const io::Reading& reading) {
  if (given.given("document-end")) return;
  log_info("documents are read {} an end token, {}; to compare two models, give both the same --[no-]document-end",
           values.flag("document-end") ? "with" : "without",
           reading.contains("document-end") ? "as the model was trained"
                                            : "because the folder does not tell how the model was trained");
}

void print(const OptionValues& values, const report::EvaluationReport& evaluation, const std::string& folder) {
  if (values.flag("json")) {
    report::Json json = report::to_json(evaluation);
    json["model"] = folder;
    return print_out(report::dump(json) + "\n");
  }
  print_out(report::render_for_stdout(report::summary_table(evaluation)));
  if (evaluation.task == data::Task::ctr)
    print_out(fmt::format("\n{}", report::render_for_stdout(report::calibration_table(evaluation))));
  if (!data::has_one_class(evaluation.task)) return;
  constexpr std::size_t readable = 12;  // most columns of a confusion table that fit a terminal
  if (evaluation.labels.size() <= readable)
    print_out(fmt::format("\n{}", report::render_for_stdout(report::confusion_table(evaluation))));
  print_out(fmt::format("\n{}", report::render_for_stdout(report::label_table(evaluation))));
}

void refuse_without_effect_on(const OptionValues& values, const StoredModel& stored) {
  const data::Task task = models::common(stored.spec).task;
  refuse_options_of_texts(values, task);
  if (values.text("task") == "choice")
    refuse_options(values, {"text", "label", "data-format", "chat", "document-end", "stride"},
                   "--task choice reads questions with their choices");
  if (task != data::Task::mlm)
    refuse_options(values, {"mask-probability", "whole-words", "first-length"},
                   fmt::format("{} is no model of masked words", stored.folder));
  if (task != data::Task::mlm && task != data::Task::ctr)  // clicks: samples for the errors of the measures
    refuse_options(values, {"seed"}, fmt::format("{} is measured without draws", stored.folder));
  if (task != data::Task::clm)
    refuse_options(values, {"document-end", "stride", "chat"},
                   fmt::format("{} is {} and no decoder", stored.folder, models::kind_of(stored.spec)));
  if (task == data::Task::pairs) {
    refuse_options(values, {"predictions"}, "--task pairs compares the texts of a batch and predicts nothing of one");
    if (values.integer("batch") < 2)
      fail_input(
          "[evaluate] --batch {}: a first text would be compared with its own second text alone, which is the nearest "
          "of one; use --batch 2 or more",
          values.integer("batch"));
  }
  if (data::predicts_words(task) || task == data::Task::pairs)
    refuse_options(values, {"label"}, fmt::format("the task {} has no labels", data::name_of(task)));
}

}  // namespace

OptionTable evaluate_table() {
  OptionTable table("evaluate",
                    "measure a model on data: loss, accuracy and confusion of labels; error and correlations of "
                    "numbers; cosines of sentence embeddings against scores");
  table.positional({.name = "MODEL", .help = "a run folder, a model folder, or a GGUF file"})
      .add(reading_options())
      .add({adapter_option()})
      .add(machine_options())
      .add(precision_options());
  table.add(
      {{.name = "task",
        .type = OptionType::choice,
        .default_text = "model",
        .group = "Data",
        .help =
            "model: the model's own; choice: multiple choice by log-likelihood (decoders), JSONL with the keys "
            "question, choices and answer, with a blank between question and choice unless one is there, which does "
            "not count among the choice's bytes; pairs: embeddings of two columns of texts, where accuracy is the "
            "share of first texts whose own second text is the nearest of --batch rows",
        .choices = {"model", "choice", "pairs"}},
       {.name = "seed",
        .type = OptionType::integer,
        .default_text = "0",
        .group = "Data",
        .help = "seed of the masked positions (mlm)",
        .minimum = 0},
       {.name = "stride",
        .type = OptionType::integer,
        .group = "Data",
        .help =
            "distance in tokens between windows of --seq tokens in a document, for perplexity with context (decoders)",
        .minimum = 1},
       {.name = "predictions",
        .type = OptionType::path,
        .group = "Output",
        .help = "write, separated by tabs, label, predicted label and probability of every example (regression: label "
                "and predicted number; choice: answer, choices and their log-likelihoods; language models: tokens of "
                "every micro-batch, and their loss)",
        .metavar = "FILE",
        .in_config = false,
        .files = FileUse::written},
       {.name = "require",
        .type = OptionType::list,
        .group = "Output",
        .help = "end with exit code 1 unless this condition holds",
        .metavar = "'accuracy>=0.8'"},
       json_option()});
  table.add(against_options())
      .add(common_options())
      .synonyms({"eval", "test", "measure", "score", "validate", "perplexity", "ppl"});
  table.common({"data", "text", "label", "against", "tokenizer", "seq", "stride", "require", "predictions", "json"});
  table.example("comera evaluate run --data dev.tsv --require 'accuracy>=0.8'")
      .example("comera evaluate stories --data text.txt --seq 256 --stride 128")
      .example("comera evaluate llama --task choice --data questions.jsonl")
      .example("comera evaluate small --against all-MiniLM-L6-v2 --data text.txt --require 'cosine>=0.98'");
  return table.example("comera evaluate all-MiniLM-L6-v2 --data sts-dev.tsv --text sentence1,sentence2 --label score");
}

int run_evaluate(const OptionValues& given) {
  OptionValues values = given;
  if (values.has("predictions") && values.text("predictions").ends_with(".csv"))
    fail_input(
        "[evaluate] --predictions {}: columns are separated by tabs, not by commas; give the name of a .tsv file",
        values.text("predictions"));
  if (values.has("against")) return evaluate_against(values);
  if (values.list("data").empty()) fail_input("[evaluate] --data is missing: name the files to evaluate on");
  StoredModel stored = open_stored_model(values, values.positionals()[0]);
  refuse_without_effect_on(values, stored);
  if (values.text("task") == "choice") return evaluate_choices(values, stored);
  if (models::common(stored.spec).task == data::Task::embed) return evaluate_sentences(values, stored);
  if (data::learns_labels(models::common(stored.spec).task) && !values.has("label"))
    fail_input("[evaluate] --label is missing: name the column of the label");
  if (values.has("stride") && values.integer("stride") >= values.integer("seq"))
    fail_input(
        "[evaluate] --stride {} would leave out tokens between windows of --seq {}; use --stride {} or less, or "
        "none for windows that follow each other",
        values.integer("stride"), values.integer("seq"), values.integer("seq") - 1);
  std::vector<report::Requirement> requirements;
  for (const std::string& text : values.list("require"))
    requirements.push_back(report::parse_requirement(text, models::common(stored.spec).task));
  const report::EvaluationReport evaluation = evaluate(values, stored);
  if (models::common(stored.spec).task == data::Task::clm) tell_document_ends(given, values, stored.reading);
  if (evaluation.result.counted == 0)
    fail_input("[evaluate] {}: holds nothing to evaluate on", values.list("data").front());
  print(values, evaluation, stored.folder);
  for (const report::Requirement& requirement : requirements) report::require_metric(evaluation, requirement);
  return 0;
}

}  // namespace comera::tools
