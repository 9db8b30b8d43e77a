#include "tools/run_setup.h"

#include <algorithm>

#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "lib/core/files/outputs.h"
#include "lib/io/json_file.h"
#include "models/model_options.h"
#include "tools/clicks.h"
#include "tools/fitting.h"
#include "tools/images.h"
#include "tools/regression.h"
#include "tools/stored_model.h"

namespace comera::tools {
namespace {

void require(const OptionValues& values, const char* name, const char* what) {
  if (!values.has(name)) fail_input("[{}] --{} is missing: {}", values.table().verb(), name, what);
}

models::DataFacts facts_of(const OptionValues& values, const RunSetup& setup) {
  models::DataFacts facts;
  facts.task = train::task_of(values);
  facts.max_length = values.integer("seq");
  facts.features = setup.features;
  const data::Tokenizer* tokenizer = setup.tokenizer.get();
  if (tokenizer) {
    facts.vocabulary = tokenizer->vocab_size();
    if (tokenizer->specials().pad >= 0) facts.pad = tokenizer->specials().pad;
    if (tokenizer->specials().begin >= 0) facts.begin = tokenizer->specials().begin;
    if (tokenizer->specials().end >= 0) facts.end = tokenizer->specials().end;
  }
  return facts;
}

train::RecipeHashes hashes_of(const RunSetup& setup) {
  return {setup.data->hash(), setup.dev ? setup.dev->hash() : "",
          setup.features    ? setup.features->hash()
          : setup.tokenizer ? setup.tokenizer->hash()
                            : ""};
}

void check_hashes(const OptionValues& values, const RunSetup& setup) {
  const std::string path = join_path(setup.folder, "recipe.toml");
  train::check_resume(train::recipe_hashes(read_file(path, io::largest_recipe), path), hashes_of(setup),
                      values.flag("override"));
}

// A resumed or repeated run uses the kernel paths that its recipe records.
void choose_paths(const OptionValues& values, RunSetup& setup) {
  const std::string path = setup.resume           ? join_path(setup.folder, "recipe.toml")
                           : values.has("config") ? values.text("config")
                                                  : "";
  setup.paths = std::make_unique<tuning::PathChoices>(
      path.empty() ? plan::PathTable() : train::recipe_paths(read_file(path, io::largest_recipe), path));
  setup.open.machine.paths = setup.paths.get();
}

// The values of options that older recipes lack: the program had one rate for all cores, no decay of a norm, AdamW
// for all weights, no form of tables, and for many models no rate of tables. Words of --optimizer without a method for
// all get that of `optimizer`, those of the run.
void set_absent(OptionValues& values, const std::vector<std::string>& optimizer) {
  for (const auto& [name, value] :
       {std::pair{"core-rates", "uniform"}, {"weight-norm-decay", "0"}, {"embedding-form", "same"}})
    if (values.table().find(name) && !values.given(name)) values.set(name, value, OptionSource::file);
  if (values.table().verb() != "pretrain") return;
  for (const auto& [name, other] : {std::pair{"lr-table-cores", "lr-cores"}, {"lr-tables", "lr"}})
    if (!values.given(name) && values.has(other)) values.set(name, format_real(values.real(other)), OptionSource::file);
  train::complete_methods(values, train::counted_methods(optimizer).front());
}

// Reads the recipe under the folder's lock, so no other process changes it.
void take_recipe(OptionValues& values, const RunSetup& setup) {
  const std::string path = setup.run->recipe_path(), recipe = read_file(path);
  OptionValues before(values.table());
  apply_toml(before, recipe, path);
  set_absent(before, {});
  keep_choice(values, before);
  apply_toml(values, recipe, path);
  set_absent(values, before.list("optimizer"));
  train::check_resume(before, values, values.flag("override"));
}

}  // namespace

std::string why_no_run(const std::string& path) {
  if (is_folder(path)) return "there is no run to resume in that folder; it has no recipe.toml";
  if (!path_exists(path)) return "no such folder; name the folder of a run";
  const std::string folder = parent_path(path);
  const bool of_run = path_exists(join_path(folder, "recipe.toml"));
  return "is a file; name the folder of a run" + (of_run ? ": " + folder : "");
}

std::optional<std::string> recipe_to_resume(const OptionValues& values) {
  if (!values.has("resume")) return std::nullopt;
  const std::string named = values.text("resume") == "yes" ? "" : values.text("resume");
  if (named.empty() && !values.has("output")) return std::nullopt;
  const std::string& folder = named.empty() ? values.text("output") : named;
  const auto recipe = train::read_recipe(folder);
  if (!recipe && !values.has("data"))
    fail_input("[{}] --resume {}: {}", values.table().verb(), folder, why_no_run(folder));
  return recipe;
}

void complete_repeated(OptionValues& values) {
  if (!values.has("config") || recipe_to_resume(values)) return;
  const std::string& path = values.text("config");
  if (!train::recipe_hashes(read_file(path, io::largest_recipe), path).data.empty()) set_absent(values, {});
}

void settle_folder(OptionValues& values, RunSetup& setup) {
  using Open = train::RunFolder::Open;
  const bool asked = values.has("resume");
  const std::string named = asked && values.text("resume") != "yes" ? values.text("resume") : "";
  if (named.empty()) require(values, "output", "name the folder of the run");
  if (!named.empty() && values.given("output") && values.text("output") != named)
    fail_input("[{}] --resume names {}, --output names {}; name one folder", values.table().verb(), named,
               values.text("output"));
  setup.folder = named.empty() ? values.text("output") : named;
  setup.resume = recipe_to_resume(values).has_value();
  setup.run = std::make_unique<train::RunFolder>(setup.folder, setup.resume           ? Open::resume
                                                               : values.flag("force") ? Open::replace
                                                                                      : Open::fresh);
  if (setup.resume) take_recipe(values, setup);
  NamedFiles files = named_files(values);
  if (!named.empty()) files.outputs.push_back({"--resume", named});
  check_outputs(values.table().verb(), files.inputs, files.outputs);
}

void open_data(const OptionValues& values, RunSetup& setup, const std::string& tokenizer_folder,
               const std::vector<std::string>& labels) {
  require(values, "data", "name the files to learn from");
  if (train::task_of(values) == data::Task::ctr) return open_clicks(values, setup);
  if (train::task_of(values) == data::Task::image) return open_images(values, setup, labels);
  setup.tokenizer = open_tokenizer(values, tokenizer_folder);
  data::DataSpec spec = train::data_spec(values, values.list("data"));
  spec.chat = open_chat(values, *setup.tokenizer);
  spec.text_asked = !setup.resume;
  const auto data = data::Dataset::open(spec, setup.tokenizer, labels);
  setup.data = data;
  if (data->spec().task == data::Task::classify) tell_whole_numbers(values, data->labels());
  if (data->spec().task == data::Task::regression) setup.scores = moments_to_learn(values, *data);
  if (values.list("dev").empty()) return;
  data::DataSpec dev = train::data_spec(values, values.list("dev"));
  dev.chat = spec.chat;
  dev.text_asked = spec.text_asked;
  setup.dev = data::Dataset::open(dev, setup.tokenizer, data->labels());
}

void check_data(const OptionValues& values, const RunSetup& setup) {
  const data::Task task = train::task_of(values);
  if (task == data::Task::ctr || task == data::Task::image) return;
  for (const char* option : {"data", "dev"}) {
    if (values.list(option).empty()) continue;
    data::DataSpec spec = train::data_spec(values, values.list(option));
    if (setup.tokenizer) spec.chat = open_chat(values, *setup.tokenizer);
    data::check_files(spec);
  }
}

namespace {

void open_device(const OptionValues& values, RunSetup& setup) {
  setup.open = values.flag("dry-run") ? open_machine_to_plan(values) : open_machine(values, values.text("dtype"));
}

// The model of the options that --fit settles.
void settle_model(OptionValues& values, RunSetup& setup, const models::DataFacts& facts,
                  const std::function<void(OptionValues&)>& settle) {
  setup.spec_of = [facts](const OptionValues& of) { return models::spec_from_options(of, facts); };
  setup.settle = settle;
  if (!values.has("fit")) setup.spec = setup.spec_of(values);  // errors of the model come before those of the machine
  open_device(values, setup);
  settle_fit(values, setup);
  setup.spec = setup.spec_of(values);
  setup.factory = models::factory_of(setup.spec, setup.open.machine.dtype);
}

}  // namespace

void refuse_idle_options(const OptionValues& values) {
  refuse_without_effect(values);
  train::refuse_settings_without_effect(values);
  refuse_options_of_texts(values, train::task_of(values));
}

RunSetup begin_setup(OptionValues& values) {
  RunSetup setup;
  settle_folder(values, setup);
  refuse_idle_options(values);
  setup.options = train::train_options(values);
  return setup;
}

void open_computer(const OptionValues& values, RunSetup& setup) {
  open_device(values, setup);
  setup.factory = models::factory_of(setup.spec, setup.open.machine.dtype);
}

void finish_setup(const OptionValues& values, RunSetup& setup) {
  choose_paths(values, setup);
  if (setup.resume) check_hashes(values, setup);
  setup.recipe = train::recipe_text(values, hashes_of(setup));
}

RunSetup set_up_run(OptionValues& values, const std::function<void(OptionValues&)>& settle) {
  RunSetup setup = begin_setup(values);
  open_data(values, setup, "", {});
  models::DataFacts facts = facts_of(values, setup);
  facts.labels = setup.data->labels();
  settle_model(values, setup, facts, settle);
  if (facts.task == data::Task::regression)
    setup.start = [spec = setup.spec, scores = setup.scores](engine::Weights& weights) {
      start_head(spec, scores, weights);
    };
  finish_setup(values, setup);
  return setup;
}

RunSetup setup_without_data(OptionValues& values, const std::function<void(OptionValues&)>& settle) {
  RunSetup setup;
  refuse_idle_options(values);
  setup.options = train::train_options(values);
  const bool clicks = setup.options.task == data::Task::ctr;
  if (clicks && !values.list("data").empty()) open_clicks(values, setup);
  const bool images = setup.options.task == data::Task::image;
  if (images && !values.list("data").empty()) open_images(values, setup, {});
  if (!clicks && !images && values.has("tokenizer")) setup.tokenizer = open_tokenizer(values, "");
  check_data(values, setup);
  models::DataFacts facts = facts_of(values, setup);
  if (images && setup.data) facts.labels = setup.data->labels();
  settle_model(values, setup, facts, settle);
  if (images) {
    if (!setup.data) setup.assumed.emplace_back("labels", fmt::format("{}", models::common(setup.spec).labels.size()));
    return setup;
  }
  if (clicks) {
    if (!setup.features) setup.assumed.emplace_back("tables", "those of Criteo");
    return setup;
  }
  const models::Spec& spec = models::common(setup.spec);
  if (!values.given("task")) setup.assumed.emplace_back("task", values.text("task"));
  if (!setup.tokenizer) setup.assumed.emplace_back("vocabulary", fmt::format("{}", spec.vocabulary));
  if (!values.given("seq")) setup.assumed.emplace_back("seq", values.canonical("seq"));
  if (data::has_classes(setup.options.task))
    setup.assumed.emplace_back("labels", fmt::format("{}", spec.labels.size()));
  return setup;
}

report::Facts settings_of(const OptionValues& values) {
  static constexpr const char* always[] = {"model",    "form",     "rank",   "task",   "data",        "dev",
                                           "seq",      "batch",    "steps",  "epochs", "lr",          "lr-cores",
                                           "lr-ranks", "schedule", "warmup", "seed",   "activations", "optimizer"};
  const OptionValues defaults(values.table());
  // A resumed run gets every option from its recipe, so only values that differ from the default are shown.
  const auto says_something = [&](const std::string& name) {
    return values.given(name) && !(defaults.has(name) && defaults.canonical(name) == values.canonical(name));
  };
  report::Facts facts;
  for (const Option& option : values.table().options()) {
    const bool matters = std::find(std::begin(always), std::end(always), option.name) != std::end(always);
    if (values.has(option.name) && option.in_config && (matters || says_something(option.name)))
      facts.emplace_back(option.name, values.canonical(option.name));
  }
  return facts;
}

}  // namespace comera::tools
