// `comera finetune`.
#include <fmt/core.h>

#include <algorithm>

#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "lib/core/terminal/log.h"
#include "lib/engine/weights_file.h"
#include "lib/io/file_kind.h"
#include "lib/io/tt_format.h"
#include "models/model_options.h"
#include "models/presets.h"
#include "models/sentence.h"
#include "tools/fitting.h"
#include "tools/images.h"
#include "tools/reading.h"
#include "tools/regression.h"
#include "tools/stored_model.h"
#include "tools/teaching.h"
#include "tools/training.h"
#include "tools/verbs.h"

namespace comera::tools {
namespace {

std::vector<Option> start_options() {
  std::vector<Option> rows{{.name = "model",
                            .type = OptionType::path,
                            .help = "the folder to start from, in place of MODEL",
                            .metavar = "FOLDER",
                            .synonyms = {"model-name-or-path", "checkpoint", "base-model"}},
                           {.name = "new-head",
                            .type = OptionType::flag,
                            .help = "use a new head, even if the model has one for this task and these labels"},
                           {.name = "unlabelled",
                            .type = OptionType::flag,
                            .help = "learn from the teacher alone, and read no labels",
                            .default_words = "on with a teacher and without --label"}};
  for (Option& option : models::model_options())
    if (option.name == "dropout" || option.name == "attention-dropout") {
      option.default_words = "the model's";
      rows.push_back(std::move(option));
    }
  for (Option& option : rows) option.group = "Model", option.result_relevant = true;
  rows.push_back(
      {.name = "save-dtype",
       .type = OptionType::choice,
       .default_text = "source",
       .group = "Model",
       .help = "element type of the final weights: that of MODEL's tensors, or another; checkpoints are always exact",
       .choices = {"source", "fp32", "fp16", "bf16"}});
  return rows;
}

std::vector<Option> adaptation_options() {
  std::vector<Option> rows = train::rank_options();
  for (Option& option : rows)
    if (option.name == "adapt-ranks") option.default_words = "on with a target, else off";
  return rows;
}

constexpr const char* chain_rate = "4e-4";
constexpr const char* uniform_rate = "1e-4";

// Default rates for trained cores, which those for random cores destroy (docs/results/finetuning.md).
std::vector<Option> gentle_options() {
  std::vector<Option> rows = train::training_options();
  for (Option& option : rows) {
    if (option.name == "lr-cores") {
      option.default_text = chain_rate;
      option.default_words = fmt::format("{}; {} if uniform", chain_rate, uniform_rate);
    }
    if (option.name == "warmup") option.default_text = "10";
  }
  add_core_rates(rows,
                 "by the norms of the model's cores, so that a linear weight moves as far as a dense one at that rate");
  return rows;
}

// The model of the run that --resume continues, if MODEL is not given.
std::string model_of_run(const OptionValues& values) {
  const auto recipe = recipe_to_resume(values);
  if (!recipe) fail_input("[finetune] MODEL is missing: name the folder of the model to train further");
  OptionValues before(values.table());
  apply_toml(before, *recipe, "recipe.toml");
  return before.text("model");
}

// --label selects a task with labels: regression if the model's task is regression or the labels are real numbers, else
// classify. So does a column of its default name where a model of embeddings has no teacher to learn from.
data::Task task_for(const OptionValues& values, const models::ModelSpec& stored) {
  const models::Spec& model = models::common(stored);
  const bool unlabelled =
      values.given("unlabelled") ? values.flag("unlabelled") : values.has("teacher") && !values.given("label");
  const bool embeds = model.task == data::Task::embed && !values.has("teacher");
  const bool labels =
      !unlabelled && (values.given("label") || data::learns_labels(model.task) || (embeds && has_label_column(values)));
  const bool settled =
      model.task == data::Task::image || (data::learns_labels(model.task) && model.task != data::Task::classify);
  if (!labels || settled || recipe_to_resume(values)) return model.task;
  return task_of_labels(values, model.labels);
}

// Texts have at most the model's positions, images always.
void settle_tokens(OptionValues& values, const models::ModelSpec& stored) {
  if (std::holds_alternative<models::VitSpec>(stored))
    settle_image_tokens(values, std::get<models::VitSpec>(stored));
  else
    settle_length(values, stored);
}

// Fills in defaults from the model and the given options.
void settle(OptionValues& values) {
  if (!values.has("model")) values.set("model", model_of_run(values));
  const std::string& folder = values.text("model");
  if (models::is_preset(folder) && !path_exists(folder))
    fail_input("[finetune] {}: no such folder; a model of the preset {} is made by `comera pretrain --model {}`",
               folder, folder, folder);
  io::require_model_folder("[finetune]", folder);
  const models::ModelSpec stored = models::spec_from_folder(folder);
  if (std::holds_alternative<models::DlrmSpec>(stored))
    fail_input(
        "[finetune] {}: is a model of clicks, whose categories are those of its run; go on with `comera pretrain "
        "--resume {}`",
        folder, folder);
  if (!values.given("task")) values.set("task", data::name_of(task_for(values, stored)), OptionSource::fallback);
  const data::Task task = train::task_of(values);
  if (task == data::Task::embed && !values.has("teacher") && !values.has("resume"))
    fail_input(
        "[finetune] --teacher is missing: {} gives embeddings, which are learned from another model's; to learn "
        "labels, name their column with --label; to learn from pairs of texts, use --task pairs and name both columns "
        "with --text",
        folder);
  if (!values.given("lr-cores") && values.text("core-rates") == "uniform")
    values.set("lr-cores", uniform_rate, OptionSource::fallback);
  settle_tokens(values, stored);
  const io::Reading reading = reading_of(folder);
  if (const auto ends = reading.find("document-end"); ends != reading.end() && !values.given("document-end"))
    values.set("document-end", ends->second, OptionSource::fallback);
  const bool target = values.has("target-ratio") || values.has("target-size") || values.has("target-fraction");
  if (!values.given("adapt-ranks")) values.set("adapt-ranks", target ? "true" : "false", OptionSource::fallback);
  const bool images = task == data::Task::image;  // they have labels always
  if (!values.given("unlabelled") && values.has("teacher") && !values.given("label") && !images)
    values.set("unlabelled", "true", OptionSource::fallback);
}

// True if the model has every label of the data. An empty list (numbers) is always true.
bool knows(const models::Spec& spec, const std::vector<std::string>& labels) {
  return std::all_of(labels.begin(), labels.end(), [&](const std::string& label) {
    return std::find(spec.labels.begin(), spec.labels.end(), label) != spec.labels.end();
  });
}

// The model of the folder, with a head for the task and the labels. `fresh`: the head is new.
models::ModelSpec spec_for(const OptionValues& values, const std::vector<std::string>& labels, bool& fresh) {
  models::ModelSpec spec = models::spec_from_folder(values.text("model"));
  const data::Task task = train::task_of(values);
  const models::Spec& stored = models::common(spec);
  fresh = stored.task != task || values.flag("new-head") || !knows(stored, labels);
  if (fresh && data::has_classes(task) && labels.empty())
    fail_input("[finetune] {}: has no head for labels, and the data has none to make one from; leave out --unlabelled",
               values.text("model"));
  if (task == data::Task::embed || task == data::Task::pairs)
    models::require_no_prompt(values.text("model"), "finetune");
  if (fresh) spec = models::with_head(spec, task, labels);
  models::Spec& common = models::common(spec);
  if (!common.on_grids.empty())
    fail_input(
        "[finetune] {}: {} of its weights are numbers on grids, which are not trained; make a dense model with `comera "
        "export {} -o DENSE --to safetensors` and finetune that",
        values.text("model"), common.on_grids.size(), values.text("model"));
  if (values.has("dropout")) models::set_dropout(spec, values.real("dropout"));
  if (values.has("attention-dropout")) common.attention_dropout = values.real("attention-dropout");
  if (values.flag("adapt-ranks")) models::unfold(common);
  models::check(spec);
  return spec;
}

// Sets the masked diagonal entries of the folder to zero.
void settle_diagonals(const std::string& folder, engine::Weights& weights) {
  const io::ModelFolder files(folder);
  const auto block = io::parse_comera_block(files.config(), files.config_path());
  if (!block || !block->threshold) return;
  for (const layers::ChainParameters& chain : weights.model().chains())
    for (const layers::Parameter* diagonal : chain.diagonals) {
      const engine::HostBytes host(weights.machine(), diagonal->value);
      std::vector<std::byte> bytes(host.bytes().begin(), host.bytes().end());
      plan::Tensor copy = diagonal->value;
      copy.data = bytes.data();
      for (std::int64_t i = 0; i < copy.elements(); ++i)
        if (layers::load(copy, i) <= *block->threshold) layers::store(copy, i, 0);
      engine::write(weights.machine(), diagonal->value, bytes);
    }
}

// Maps the tensor names of the model to those of the folder.
engine::LoadOptions naming_of(const std::string& folder, const models::ModelSpec& spec) {
  engine::LoadOptions naming;
  naming.model_prefix = models::name_prefix(spec);
  if (!naming.model_prefix.empty()) naming.file_prefix = models::name_prefix(models::spec_from_folder(folder));
  return naming;
}

engine::StoredTypes types_of(const OptionValues& values) {
  const std::string& word = values.text("save-dtype");
  if (word == "source") return engine::stored_types(values.text("model"));
  return {.others = word == "fp16" ? DType::f16 : word == "bf16" ? DType::bf16 : DType::f32};
}

// Load options for a model of `spec`: a new head keeps its random start, and diagonals of folded chains start at one.
engine::LoadOptions start_of(const std::string& folder, const std::string& adapter, const models::ModelSpec& spec,
                             bool fresh_head) {
  engine::LoadOptions options = naming_of(folder, spec);
  options.adapter = adapter;
  const bool labels = data::learns_labels(models::common(spec).task);
  options.fresh = [=](const layers::Parameter& parameter) {
    return fresh_head && models::is_in_head(spec, parameter.name) &&
           !(labels && parameter.name.find("pooler") != std::string::npos);
  };
  options.may_miss = [=](const layers::Parameter& parameter) {
    return parameter.role == layers::Role::diagonal || (fresh_head && models::is_in_head(spec, parameter.name));
  };
  return options;
}

void load_start(const std::string& folder, const std::string& adapter, const models::ModelSpec& spec, bool fresh_head,
                engine::Weights& weights) {
  const std::vector<std::string> kept =
      engine::load_weights(folder, weights, start_of(folder, adapter, spec, fresh_head));
  const auto heads =
      std::count_if(kept.begin(), kept.end(), [&](const std::string& name) { return models::is_in_head(spec, name); });
  if (heads > 0) log_info("{} tensors of the head are new", heads);
  settle_diagonals(folder, weights);
}

// Options that the forms of this model's weights give no effect. --lr-cores is for scripts that train several forms.
void refuse_options_of_other_forms(const OptionValues& values, const layers::Model& model) {
  const std::string& folder = values.text("model");
  const auto& all = model.parameters().all();
  if (model.chains().empty()) {
    const std::string why = fmt::format("all weights of {} are dense", folder);
    refuse_options(values, {"core-rates", "lr-table-cores", "lr-ranks", "beta"}, why);
    if (values.flag("adapt-ranks")) refuse_options(values, {"adapt-ranks"}, why);
  }
  if (std::none_of(all.begin(), all.end(), [](const layers::Parameter& one) { return one.of_table; }))
    refuse_options(values, {"lr-table-cores"}, fmt::format("all tables of {} are dense", folder));
  if (model.parameters().rank_entries() == 0)
    refuse_options(values, {"lr-ranks", "beta"},
                   fmt::format("the ranks of {} have no diagonals without --adapt-ranks", folder));
}

void open_student(const OptionValues& values, RunSetup& setup, bool fresh_head) {
  open_computer(values, setup);
  const auto model = setup.factory({});
  refuse_options_of_other_forms(values, *model);
  if (!setup.resume) {
    const std::string& folder = values.text("model");
    engine::check_weights(folder, *model, start_of(folder, adapter_of(values), setup.spec, fresh_head));
  }
  setup.factory = engine::storing(setup.factory, types_of(values), naming_of(values.text("model"), setup.spec));
}

RunSetup set_up(OptionValues& values) {
  RunSetup setup = begin_setup(values);
  require_something_to_learn(values);
  setup.source = values.text("model");
  const models::ModelSpec stored = models::spec_from_folder(setup.source);
  const std::vector<std::string>& known = models::common(stored).labels;
  const bool images = setup.options.task == data::Task::image;
  if (images && values.flag("unlabelled"))
    fail_input("[finetune] --unlabelled: every image has the class of its folder or file; leave it out");
  const bool classes = values.flag("unlabelled") && data::has_classes(setup.options.task);
  open_data(values, setup, setup.source, classes ? known : std::vector<std::string>{});
  bool fresh = false;
  setup.spec = spec_for(values, setup.data->labels(), fresh);
  // Keep the model's label order if the model keeps its head.
  if (!fresh && data::has_classes(setup.options.task) && setup.data->labels() != known)
    open_data(values, setup, setup.source, known);
  if (!images) check_lengths(values, setup.spec, *setup.tokenizer);
  open_student(values, setup, fresh);
  setup.start = [spec = setup.spec, folder = setup.source, adapter = adapter_of(values), fresh,
                 scores = setup.scores](engine::Weights& weights) {
    load_start(folder, adapter, spec, fresh, weights);
    if (fresh) start_head(spec, scores, weights);
  };
  add_teacher(values, setup);
  settle_fit(values, setup);
  finish_setup(values, setup);
  return setup;
}

// Labels for --dry-run: those of the data if given, else the model's own, or two if a new head needs some.
std::vector<std::string> planned_labels(const OptionValues& values, RunSetup& setup) {
  const std::string& folder = values.text("model");
  std::vector<std::string> known = models::common(models::spec_from_folder(folder)).labels;
  if (!data::has_classes(setup.options.task) || values.flag("unlabelled")) return known;
  if (values.has("data")) {
    open_data(values, setup, folder, {});
    return setup.data->labels();
  }
  if (known.empty()) log_info("the plan assumes a head of two labels; give --data for the real number");
  return known.empty() ? std::vector<std::string>{"0", "1"} : known;
}

RunSetup set_up_dry(OptionValues& values) {
  RunSetup setup;
  refuse_idle_options(values);
  require_something_to_learn(values);
  setup.options = train::train_options(values);
  bool fresh = false;
  setup.spec = spec_for(values, planned_labels(values, setup), fresh);
  if (setup.options.task != data::Task::image) {
    if (!setup.tokenizer) setup.tokenizer = open_tokenizer(values, values.text("model"));
    check_lengths(values, setup.spec, *setup.tokenizer);
  }
  check_data(values, setup);
  open_student(values, setup, fresh);
  add_teacher(values, setup);
  if (!values.given("seq")) setup.assumed.emplace_back("seq", values.canonical("seq"));
  settle_fit(values, setup);
  return setup;
}

}  // namespace

OptionTable finetune_table() {
  OptionTable table("finetune", "train a dense or tensorized model further, on labels, on text, or with a teacher");
  table.positional({.name = "MODEL", .help = "a model folder, a run folder, or a GGUF file", .minimum = 0});
  table.add(start_options())
      .add({adapter_option()})
      .add(teaching_options())
      .add(train::data_options())
      .add(gentle_options())
      .add(adaptation_options());
  add_run_options(table);
  table.only_with({"teacher"}, {"distill", "distill-distance", "distill-temperature", "distill-weight"});
  table.synonyms({"train", "training", "fine-tune", "distill", "heal", "adapt"});
  table.common({"data", "dev", "text", "label", "task", "teacher", "epochs", "steps", "lr", "output"});
  table.example("comera finetune small --teacher all-MiniLM-L6-v2 --data sentences.txt --steps 1000 -o healed");
  table.example(
      "comera finetune all-MiniLM-L6-v2 --data sts-train.tsv --text sentence1,sentence2 --label score --epochs 3 -o "
      "scores");
  table.example("comera finetune small --task pairs --data questions.tsv --text question,answer --epochs 1 -o search");
  return table.example(
      "comera finetune all-MiniLM-L6-v2 --task classify --data train.tsv --text text --label label --epochs 3 -o run");
}

int run_finetune(const OptionValues& given) {
  OptionValues values = given;
  settle(values);
  if (values.flag("dry-run")) {
    RunSetup setup = set_up_dry(values);
    return plan_run(values, setup);
  }
  return train_and_report(values, set_up(values));
}

}  // namespace comera::tools
