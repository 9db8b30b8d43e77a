#include "lib/train/train_options.h"

#include <algorithm>
#include <cmath>

#include "lib/core/error.h"
#include "lib/core/terminal/log.h"
#include "lib/data/clicks/schema.h"
#include "lib/engine/evaluate.h"
#include "lib/train/optimizer_options.h"

namespace comera::train {
namespace {

// An option whose value changes the result.
Option row(const char* group, const char* name, OptionType type, const char* value, const char* help) {
  return {.name = name, .type = type, .default_text = value, .group = group, .help = help, .result_relevant = true};
}

Option number(const char* group, const char* name, const char* value, double minimum, double maximum,
              const char* help) {
  Option option = row(group, name, OptionType::real, value, help);
  option.minimum = minimum;
  option.maximum = maximum;
  return option;
}

Option count(const char* group, const char* name, const char* value, double minimum, const char* help) {
  Option option = row(group, name, OptionType::integer, value, help);
  option.minimum = minimum;
  return option;
}

// The memory of a run is planned from batches, which must exist first.
Option up_to(double maximum, Option option) {
  option.maximum = maximum;
  return option;
}

// Within the bounds of a schema (lib/data/clicks/schema.h).
Option number_of_rows(const char* group, const char* name, const char* help) {
  Option option = count(group, name, "", 1, help);
  option.maximum = static_cast<double>(data::most_rows);
  return option;
}

Option choice(const char* group, const char* name, const char* value, std::vector<std::string> choices,
              const char* help) {
  Option option = row(group, name, OptionType::choice, value, help);
  option.choices = std::move(choices);
  return option;
}

// An option for how a run is carried out, which does not change its result.
Option free(Option option) {
  option.result_relevant = false;
  return option;
}

Option only_here(Option option) {
  option.result_relevant = option.in_config = false;
  return option;
}

// Adds the option's names in other programs.
Option also(Option option, std::vector<std::string> synonyms) {
  option.synonyms = std::move(synonyms);
  return option;
}

constexpr double none = std::numeric_limits<double>::infinity();

std::optional<Period> period_of(const OptionValues& values, const char* name) {
  if (!values.has(name)) return std::nullopt;
  return values.period(name);
}

std::optional<Period> interval_of(const OptionValues& values, const char* name) {
  const std::optional<Period> interval = period_of(values, name);
  if (interval && interval->value == 0)
    fail_input("[{}] --{} {}: an interval is longer than nothing; leave it out to have only the end, or use --{} 1",
               values.table().verb(), name, values.canonical(name), name);
  return interval;
}

RankOptions adaptation_options(const OptionValues& values) {
  RankOptions options;
  options.adapt = values.flag("adapt-ranks");
  options.threshold = values.real("tau");
  options.gamma = values.real("gamma");
  options.rho_loss = values.real("rho-loss");
  options.rho_size = values.real("rho-size");
  options.loss_tolerance = values.real("loss-tolerance");
  options.prune_every = values.integer("prune-every");
  options.scheduled_cuts = values.integer("scheduled-cuts");
  options.floors = parse_rank_floors(values.list("rank-floor"));
  if (!options.floors.empty() && !options.adapt)
    fail_input("[{}] --rank-floor keeps ranks that are adapted; leave out --no-adapt-ranks", values.table().verb());
  const int targets = values.has("target-ratio") + values.has("target-size") + values.has("target-fraction");
  if (targets > 1)
    fail_input("[{}] --target-ratio, --target-size and --target-fraction exclude each other; give one",
               values.table().verb());
  if (targets == 1 && !options.adapt)
    fail_input("[{}] a target needs ranks that may be cut; leave out --no-adapt-ranks", values.table().verb());
  if (values.has("target-ratio"))
    options.target = TargetKind::ratio, options.target_value = values.real("target-ratio");
  if (values.has("target-size"))
    options.target = TargetKind::bytes, options.target_value = static_cast<double>(values.size("target-size"));
  if (values.has("target-fraction"))
    options.target = TargetKind::fraction, options.target_value = values.real("target-fraction");
  return options;
}

Schedule schedule_of(const OptionValues& values) {
  const std::string& shape = values.text("schedule");
  Schedule schedule;
  schedule.shape = shape == "constant" ? ScheduleShape::constant
                   : shape == "linear" ? ScheduleShape::linear
                                       : ScheduleShape::cosine;
  schedule.warmup = values.has("warmup") ? values.integer("warmup") : unset_warmup;
  schedule.final_fraction = values.real("lr-final");
  return schedule;
}

void read_lengths(const OptionValues& values, TrainOptions& options) {
  if (values.has("steps")) options.steps = values.integer("steps");
  if (values.has("epochs")) options.epochs = values.real("epochs");
  const bool asks_for_both = values.source("steps") == OptionSource::flag &&
                             values.source("epochs") == OptionSource::flag && !values.has("resume");
  if ((options.steps > 0 && options.epochs > 0) || asks_for_both)
    fail_input("[{}] --steps and --epochs exclude each other; give one", values.table().verb());
  if (!values.has("max-time")) return;
  const Period time = values.period("max-time");
  if (time.unit != Period::Unit::seconds)
    fail_input("[{}] --max-time is a time, but {} came; write for example 90s, 20m or 8h", values.table().verb(),
               to_string(time));
  options.max_seconds = time.value;
}

// A method that updates weights in the backward has no second micro-batch.
void read_clip(const OptionValues& values, TrainOptions& options) {
  const MethodRule* at_once = rule_at_once(options.optimizer.methods.rules);
  if (values.has("clip")) options.optimizer.max_norm = values.real("clip");
  if (at_once && options.accumulate > 1)
    fail_input(
        "[{}] --optimizer {} updates weights in the backward of every micro-batch, so --accumulate {} is not one step; "
        "use --accumulate 1 and a smaller --batch or --activations block, or adamw8bit",
        values.table().verb(), at_once->method, options.accumulate);
  if (at_once && options.ranks.target != TargetKind::none)
    fail_input(
        "[{}] --optimizer {} updates weights in the backward, and the late stage of a target weighs the loss against "
        "the "
        "size at the end of the step; leave out the target, or use adamw8bit for the dense weights",
        values.table().verb(), at_once->method);
}

void read_refactoring(const OptionValues& values, TrainOptions& options) {
  options.optimizer.refactor_every = values.integer("refactor-every");
  if (options.optimizer.refactor_every > 0 && options.ranks.adapt)
    fail_input(
        "[{}] --refactor-every shares the size of a weight anew between its factors, which removes what the rank "
        "diagonals have learned; add --no-adapt-ranks",
        values.table().verb());
}

// Refuses a measure that the task or data without labels does not have.
Metric best_by(const OptionValues& values, const TrainOptions& options) {
  const std::string& word = values.text("best-by");
  const bool accuracy = engine::has_accuracy(options.task, options.labelled);
  const bool correlation = options.task == data::Task::regression && options.labelled;
  if (word == "automatic") return accuracy && data::has_one_class(options.task) ? Metric::accuracy : Metric::loss;
  if (word == "loss") return Metric::loss;
  const bool spearman = word == "spearman";
  if (spearman ? !correlation : !accuracy)
    fail_input("[{}] --best-by {}: the task {}{} has no such measure; use --best-by {}", values.table().verb(), word,
               data::name_of(options.task), options.labelled ? "" : " without labels",
               correlation ? "loss or spearman"
               : accuracy  ? "accuracy or loss"
                           : "loss");
  return spearman ? Metric::spearman : Metric::accuracy;
}

}  // namespace

Option data_format_option(const char* group) {
  return choice(group, "data-format", "automatic", {"automatic", "text", "csv", "tsv", "jsonl"},
                "format of the data files, if their names do not show it");
}

std::vector<Option> data_options() {
  const char* g = "Data";
  std::vector<Option> rows = {
      choice(
          g, "task", "classify",
          {"classify", "regression", "multilabel", "tag", "mlm", "clm", "embed", "pairs", "ctr", "image"},
          "training objective: labels of texts, numbers of texts, any number of labels of a text (separated by |), a "
          "label of each word (both separated by blanks), masked tokens, the next token (decoders), embeddings (from "
          "a teacher), embeddings by cosine of pairs of texts with the other pairs of the batch as negatives, clicks "
          "(dlrm), or classes of images (vit)"),
      also(row(g, "data", OptionType::list, "",
               "training files: .txt, .csv, .tsv or .jsonl, plain, .gz or .zst; globs are allowed; images: an IDX "
               "file, or a folder with a folder of PNG and JPEG files per class"),
           {"train", "train-data", "train-file", "dataset", "input", "corpus"}),
      also(row(g, "dev", OptionType::list, "", "files to evaluate on"),
           {"validation", "valid", "val", "eval-data", "val-data", "validation-file", "test", "test-data"}),
      row(g, "text", OptionType::list, "",
          "columns of a table with text: one, or two for pairs (classify, regression, multilabel, mlm, pairs)"),
      also(row(g, "label", OptionType::string, "label",
               "the column with the label: a class, a number, or labels (classify, regression, multilabel, tag)"),
           {"target-column", "label-column"}),
      chat_option(g),
      data_format_option(g),
      row(g, "schema", OptionType::path, "",
          "JSON file that names label, numbers and categories of click data, or criteo (ctr; libFM files need none)"),
      number_of_rows(g, "min-count",
                     "categories that fewer rows of the training data have share row 0 of their table (ctr)"),
      number_of_rows(g, "hash-rows", "tables of more rows get so many rows, which categories share by hashing (ctr)"),
      count(g, "crop", "0", 0,
            "largest shift of training images along each axis, in pixels, less than their size (image)"),
      row(g, "flip", OptionType::flag, "", "mirror half of the training images (image)"),
      also(row(g, "tokenizer", OptionType::path, "",
               "tokenizer.json, vocab.txt, a SentencePiece .model, or a folder with one"),
           {"vocab", "vocabulary", "tokenizer-name"}),
      choice(g, "case", "automatic", {"automatic", "cased", "uncased"}, "letter case of the tokens in a vocab.txt"),
      also(count(g, "seq", "128", 3, "longest sequence in tokens, specials included"),
           {"seq-len", "max-length", "max-seq-length", "sequence-length", "context-length", "block-size"}),
      also(up_to(1 << 24, count(g, "batch", "32", 1, "sequences per micro-batch")),
           {"batch-size", "micro-batch", "train-batch-size", "per-device-train-batch-size"}),
      also(up_to(1 << 20, count(g, "accumulate", "1", 1, "micro-batches per step")),
           {"gradient-accumulation-steps", "grad-accum", "accumulation-steps"}),
      number(g, "mask-probability", "0.15", 0.01, 0.9, "share of the tokens to predict (mlm)"),
      row(g, "whole-words", OptionType::flag, "", "mask all pieces of a word or none (mlm)"),
      count(g, "first-length", "", 1, "most tokens of the first text of a pair (mlm)"),
      row(g, "document-end", OptionType::flag, "true", "append the tokenizer's end piece to every document (clm)"),
      also(free(count(g, "reader-threads", "1", 1, "threads that read and tokenise ahead")),
           {"num-workers", "workers"})};
  for (Option& option : rows) {
    if (option.name == "task") option.default_words = "classify; regression if the labels are real numbers";
    if (option.name == "data" || option.name == "dev") option.metavar = "FILE,...", option.files = FileUse::read;
    if (option.name == "text") option.metavar = "NAME,...", option.default_words = "text";
    if (option.name == "label") option.metavar = "NAME";
    if (option.name == "tokenizer" || option.name == "schema") option.metavar = "FILE";
    if (option.name == "first-length") option.default_words = "a quarter of --seq";
    if (option.name == "min-count" || option.name == "hash-rows") option.default_words = "the schema's";
  }
  return rows;
}

std::vector<Option> training_options() {
  const kernels::AdamwScalars adamw;
  const char* g = "Training";
  std::vector<Option> rows = {
      also(count(g, "steps", "", 1, "optimiser steps of the whole run"),
           {"max-steps", "iterations", "iters", "num-steps"}),
      also(number(g, "epochs", "", 0, none, "passes over the data, in place of --steps"),
           {"num-train-epochs", "num-epochs", "n-epochs"}),
      free(row(g, "max-time", OptionType::period, "", "finish the run after this time (20m, 8h)")),
      also(count(g, "seed", "0", 0, "seed of weights, order of data and dropout"), {"random-seed"}),
      also(number(g, "lr", "5e-5", 0, none, "learning rate of all weights except cores and rank diagonals"),
           {"learning-rate", "rate", "step-size"}),
      number(g, "lr-cores", "1e-4", 0, none, "learning rate of the cores"),
      number(g, "lr-ranks", "1e-3", 0, none, "learning rate of the rank diagonals"),
      number(g, "lr-table-cores", "", 0, none, "learning rate of the cores of tables of embeddings"),
      number(g, "lr-tables", "", 0, none, "learning rate of dense tables of embeddings and of decoders tied to them"),
      also(choice(g, "schedule", "linear", {"constant", "linear", "cosine"},
                  "shape of the learning rate after the warm-up"),
           {"lr-scheduler-type", "scheduler"}),
      also(count(g, "warmup", "0", 0, "steps over which the learning rate rises"), {"warmup-steps"}),
      number(
          g, "lr-final", "0", 0, 1,
          "share of the full rate that the rate falls towards: the step after the last would have it (linear, cosine)"),
      number(g, "weight-decay", "0.01", 0, none,
             "decay of matrices, apart from the gradient; biases, norms and diagonals have none"),
      number(g, "beta1", format_real(adamw.beta1).c_str(), 0, 1, "AdamW's decay of the first moment"),
      number(g, "beta2", format_real(adamw.beta2).c_str(), 0, 1, "AdamW's decay of the second moment"),
      number(g, "epsilon", format_real(adamw.epsilon).c_str(), 0, 1, "added to AdamW's denominator (adagrad: 1e-10)"),
      also(number(g, "clip", "", 0, none, "limit of the norm of all gradients; 0: no clipping"),
           {"max-grad-norm", "gradient-clipping", "grad-clip"}),
      row(g, "eval-every", OptionType::period, "",
          "steps (500), epochs (1e) or time (20m) between evaluations; the end is always evaluated"),
      count(g, "patience", "0", 0, "stop after this many evaluations without improvement; 0: never"),
      choice(g, "best-by", "automatic", {"automatic", "accuracy", "loss", "spearman"},
             "measure that selects the best model (automatic: accuracy for classify, else loss; spearman: rank "
             "correlation, for regression)"),
      free(count(g, "log-every", "10", 1, "steps between reports"))};
  for (Option& option : rows) {
    if (option.name == "eval-every")
      option.default_words = "at the end only", option.synonyms = {"eval-steps", "eval-interval", "evaluation-steps"};
    if (option.name == "log-every") option.synonyms = {"logging-steps", "log-steps", "log-interval"};
    if (option.name == "weight-decay") option.synonyms = {"wd"};
    if (option.name == "patience") option.synonyms = {"early-stopping", "early-stopping-patience"};
    if (option.name == "lr-tables") option.default_words = "that of --lr";
    if (option.name == "lr-table-cores") option.default_words = "that of --lr-cores";
    if (option.name == "clip") option.default_words = "1; 0 with --optimizer lomo or adalomo";
  }
  for (Option& option : memory_options(g)) rows.push_back(std::move(option));
  return rows;
}

std::vector<Option> rank_options() {
  const char* g = "Rank adaptation";
  return {
      row(g, "adapt-ranks", OptionType::flag, "true",
          "remove entries of rank diagonals at or below --tau; with a target, also those that the late stage cuts"),
      number(g, "tau", "0.01", 0, 1, "entries of a rank diagonal at or below this are removed"),
      number(g, "gamma", "0.01", 0, none, "early stage: weight of the size"),
      number(g, "beta", "1e-6", 0, none, "weight of the squared norm of the cores; 0 while the late stage cuts"),
      number(g, "rho-loss", "0.1", 0, none,
             "late stage by the objective: weight of the loss in steps that reduce the size"),
      number(g, "rho-size", "0.01", 0, none,
             "late stage by the objective: weight of the size in steps that reduce the loss"),
      number(g, "loss-tolerance", "0", 0, none,
             "late stage by the objective: share of the early stage's fall in loss that steps may give back while they "
             "reduce the size, times the share of the size that is too much; 0: that share of the loss itself"),
      choice(g, "rank-penalty", "size", {"size", "mean"},
             "quantity to penalise: the size of the layers, or the mean of the diagonals"),
      count(g, "prune-every", "100", 0, "steps between removals; 0: only when the target is reached"),
      count(g, "scheduled-cuts", "8", 0,
            "late stage: cuts of the entries that the loss needs least, before the middle of the stage; 0: CoMERA's "
            "objective pushes the size there, entries leave by falling to --tau, and the middle enforces the target"),
      number(g, "target-ratio", "", 1, none, "late stage: dense / compressed parameters of the whole model to reach"),
      row(g, "target-size", OptionType::size, "", "late stage: bytes of the whole weights file to reach"),
      number(g, "target-fraction", "", 0, 1, "late stage: share of the tensorised size after the early stage to reach"),
      row(g, "late-after", OptionType::period, "",
          "start of the late stage: steps, epochs or time; default: two thirds of the run"),
      row(g, "rank-floor", OptionType::list, "",
          "ranks that adaptation leaves to every inner bond: R for all layers, GLOB=R by name, the last match counts; "
          "without one a layer can lose all ranks and end as its bias"),
      count(g, "refactor-every", "0", 0,
            "steps between new factorisations of weights in tensor-train form, with moments of zero; 0: none (with "
            "--no-adapt-ranks)")};
}

std::vector<Option> run_options() {
  const char* g = "Run";
  std::vector<Option> rows = {
      free(row(g, "save-every", OptionType::period, "", "steps (500), epochs (1e) or time (20m) between checkpoints")),
      free(count(g, "keep", "2", 1, "checkpoints to keep, besides the best model")),
      only_here(row(g, "output", OptionType::path, "", "the run folder")),
      only_here(row(g, "resume", OptionType::string, "",
                    "continue from the last checkpoint of the output folder, or of RUN")),
      only_here(
          row(g, "override", OptionType::flag, "",
              "resume although options or data changed, or from the last intact checkpoint if the newest is damaged")),
      only_here(row(g, "force", OptionType::flag, "", "replace the run that is in the output folder")),
      only_here(row(g, "dry-run", OptionType::flag, "", "print sizes, memory and FLOPs; write nothing")),
      only_here(row(g, "explain", OptionType::flag, "",
                    "with --dry-run: FLOPs by part of the step, the largest tensors and the policies of --fit")),
      only_here(row(g, "fit", OptionType::size, "",
                    "keep the planned memory below this: chooses --activations, --optimizer and the micro-batch (with "
                    "--accumulate) where they are not given"))};
  rows[0].synonyms = {"save-steps", "checkpoint-every", "save-interval"};
  rows[1].synonyms = {"save-total-limit"};
  rows[2].synonyms = {"output-dir", "out", "out-dir", "save-to"};
  rows[3].synonyms = {"continue", "resume-from-checkpoint"};
  rows[5].synonyms = {"overwrite", "overwrite-output-dir"};
  rows[2].short_name = 'o';
  rows[2].files = FileUse::written;
  rows[3].without_value = "yes";
  rows[3].metavar = "RUN";
  return rows;
}

data::Task task_of(const OptionValues& values) {
  for (const data::Task task :
       {data::Task::mlm, data::Task::clm, data::Task::embed, data::Task::regression, data::Task::ctr, data::Task::image,
        data::Task::multilabel, data::Task::tag, data::Task::pairs})
    if (values.text("task") == data::name_of(task)) return task;
  return data::Task::classify;
}

bool reads_labels(const OptionValues& values) {
  return !values.table().find("unlabelled") || !values.flag("unlabelled") || !data::learns_labels(task_of(values));
}

Option chat_option(const char* group) {
  return {.name = "chat",
          .type = OptionType::flag,
          .group = group,
          .help =
              "rows of JSONL are conversations in the column messages (or --text), written by the chat template "
              "beside the tokenizer (decoders)",
          .result_relevant = true};
}

data::DataSpec data_spec(const OptionValues& values, const std::vector<std::string>& files) {
  data::DataSpec spec;
  spec.files = files;
  spec.task = task_of(values);
  spec.format = data::format_named(values.text("data-format"));
  spec.text = values.list("text");
  if (data::learns_labels(spec.task) && reads_labels(values)) spec.label = values.text("label");
  spec.max_length = values.integer("seq");
  spec.first_length = values.has("first-length") ? values.integer("first-length") : 0;
  spec.ends = values.flag("document-end");
  if (values.has("schema")) spec.schema = values.text("schema");
  if (values.has("min-count")) spec.min_count = values.integer("min-count");
  spec.crop = values.integer("crop"), spec.flip = values.flag("flip");
  if (values.has("hash-rows")) spec.hash_rows = values.integer("hash-rows");
  return spec;
}

TrainOptions train_options(const OptionValues& values) {
  if (values.flag("explain") && !values.flag("dry-run"))
    fail_input("[{}] --explain is for plans; add --dry-run", values.table().verb());
  TrainOptions options;
  options.task = task_of(values), options.labelled = reads_labels(values);
  options.batch = values.integer("batch");
  if (options.task == data::Task::pairs && options.batch < 2)
    fail_input(
        "[{}] --task pairs --batch {}: a text learns from the other pairs of its micro-batch, and there are none; use "
        "--batch 2 or more",
        values.table().verb(), options.batch);
  options.accumulate = values.integer("accumulate");
  options.length = options.task == data::Task::ctr ? 1 : values.integer("seq");
  options.mask_probability = values.real("mask-probability");
  options.whole_words = options.task == data::Task::mlm && values.flag("whole-words");
  options.seed = static_cast<std::uint64_t>(values.integer("seed"));
  options.threads = static_cast<int>(values.integer("reader-threads"));
  read_lengths(values, options);
  options.rate = values.real("lr");
  options.rate_cores = values.real("lr-cores");
  options.rate_ranks = values.real("lr-ranks");
  options.rate_tables = values.has("lr-tables") ? values.real("lr-tables") : options.rate;
  if (values.has("lr-table-cores")) options.rate_table_cores = values.real("lr-table-cores");
  options.schedule = schedule_of(values);
  options.optimizer = optimizer_options(values);
  read_memory_options(values, options.engine, options.optimizer);
  check_core_rates(values, options.optimizer.methods.rules);
  warn_of_rates(values, options.optimizer.methods.rules);
  options.ranks = adaptation_options(values);
  read_clip(values, options);
  read_refactoring(values, options);
  options.late_after = period_of(values, "late-after");
  options.eval_every = interval_of(values, "eval-every");
  options.save_every = interval_of(values, "save-every");
  options.log_every = values.integer("log-every");
  options.keep = values.integer("keep");
  options.patience = values.integer("patience");
  options.best_by = best_by(values, options);
  return options;
}

std::int64_t total_steps(const TrainOptions& options, std::int64_t steps_per_epoch) {
  if (options.steps > 0) return options.steps;
  if (options.epochs > 0) {
    if (steps_per_epoch == 0)
      fail_input("[train] --epochs needs data whose size is known; streamed text takes --steps");
    return std::max<std::int64_t>(std::llround(options.epochs * static_cast<double>(steps_per_epoch)), 1);
  }
  if (options.max_seconds == 0)
    fail_input("[train] the length of the run is not given; use --steps, --epochs or --max-time");
  if (options.schedule.shape != ScheduleShape::constant)
    fail_input(
        "[train] --max-time alone does not define the end of the learning rate schedule; add --steps, or use "
        "--schedule constant");
  return 0;
}

std::optional<std::int64_t> steps_of(const Period& period, std::int64_t steps_per_epoch, const char* option) {
  if (period.unit == Period::Unit::seconds) return std::nullopt;
  if (period.unit == Period::Unit::steps) return std::max<std::int64_t>(std::llround(period.value), 1);
  if (steps_per_epoch == 0)
    fail_input("[train] {} in epochs needs data whose size is known; streamed text takes steps or a time", option);
  return std::max<std::int64_t>(std::llround(period.value * static_cast<double>(steps_per_epoch)), 1);
}

}  // namespace comera::train
