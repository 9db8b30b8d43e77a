#include "tools/stored_model.h"

#include <algorithm>
#include <span>

#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "lib/core/join.h"
#include "lib/data/chat/chat_template.h"
#include "lib/data/files/table.h"
#include "lib/data/tokenizer/wordpiece.h"
#include "lib/engine/weights_file.h"
#include "lib/io/file_kind.h"
#include "lib/io/json_file.h"
#include "lib/train/run_folder.h"
#include "lib/train/train_options.h"
#include "models/sentence.h"
#include "tools/images.h"
#include "tools/verbs.h"

namespace comera::tools {
namespace {

constexpr const char* words[] = {"text", "chat", "data-format", "label",       "tokenizer",
                                 "case", "seq",  "batch",       "document-end"};

// Uses the column options and lengths of the model's training as defaults.
void follow(OptionValues& values, io::Reading reading) {
  // Checkpoints of others are assumed to be trained without document ends.
  reading.emplace("document-end", "false");
  for (const auto& [name, value] : reading)
    if (values.table().find(name) && !values.given(name)) values.set(name, value, OptionSource::fallback);
}

// Compares the tokenizer with the hash in the run's recipe. Another vocabulary of the same size would give wrong ids.
void require_vocabulary_of(const std::string& folder, const data::Tokenizer& tokenizer) {
  if (folder.empty()) return;
  const auto recipe = train::recipe_of_model(folder);
  if (!recipe) return;
  const std::string path = join_path(folder, "recipe.toml");
  const std::string wanted = train::recipe_hashes(*recipe, path).tokenizer;
  if (!wanted.empty() && wanted != tokenizer.hash())
    fail_input(
        "{}: is not the vocabulary that the model was trained with (hash {} in {}, {} here); put that back, or name it "
        "with --tokenizer",
        tokenizer.source(), wanted, path, tokenizer.hash());
}

data::LetterCase case_named(const std::string& word) {
  if (word == "cased") return data::LetterCase::cased;
  return word == "uncased" ? data::LetterCase::uncased : data::LetterCase::automatic;
}

}  // namespace

namespace {

std::vector<Option> options_named(std::span<const char* const> names) {
  std::vector<Option> options;
  for (const Option& option : train::data_options())
    if (std::find(names.begin(), names.end(), option.name) != names.end()) options.push_back(option);
  return options;
}

// evaluate --task pairs: vectors are measured by the pairs of their batch.
void settle_task(const OptionValues& values, StoredModel& stored) {
  if (!values.table().find("task") || values.text("task") != data::name_of(data::Task::pairs)) return;
  if (models::common(stored.spec).task != data::Task::embed)
    fail_input("[{}] --task pairs: {} gives no embeddings; its task is {}", values.table().verb(), stored.folder,
               data::name_of(models::common(stored.spec).task));
  models::require_no_prompt(stored.folder, values.table().verb());
  models::common(stored.spec).task = data::Task::pairs;
}

}  // namespace

void settle_length(OptionValues& values, const models::ModelSpec& spec) {
  const auto* encoder = std::get_if<models::EncoderSpec>(&spec);
  const std::int64_t said = encoder ? encoder->sentence.max_length : 0;
  const std::int64_t longest = std::min(said > 0 ? said : values.integer("seq"), models::common(spec).positions);
  if (!values.given("seq")) values.set("seq", std::to_string(longest), OptionSource::fallback);
}

void check_lengths(const OptionValues& values, const models::ModelSpec& spec, const data::Tokenizer& tokenizer) {
  const models::Spec& common = models::common(spec);
  const std::string& verb = values.table().verb();
  if (tokenizer.vocab_size() > common.vocabulary)
    fail_input("[{}] {}: the tokenizer has {} pieces, the model has {}; use the tokenizer that it was trained with",
               verb, tokenizer.source(), tokenizer.vocab_size(), common.vocabulary);
  if (values.integer("seq") > common.positions)
    fail_input("[{}] --seq {} is longer than the model's {} positions; use --seq {} or less", verb,
               values.integer("seq"), common.positions, common.positions);
}

void refuse_options(const OptionValues& values, std::initializer_list<const char*> names, const std::string& why) {
  for (const char* name : names)
    if (values.source(name) == OptionSource::flag)
      fail_input("[{}] --{} has no effect: {}; leave it out", values.table().verb(), name, why);
}

void refuse_options_of_texts(const OptionValues& values, data::Task task) {
  const auto refuse = [&](const char* why) {
    refuse_options(values, {"text", "label", "chat", "data-format", "tokenizer", "case", "seq"}, why);
  };
  if (task == data::Task::ctr) refuse("clicks have no texts, and their schema names the columns");
  if (task == data::Task::image) refuse("images have no texts, and their files or folders give the labels");
  if (task == data::Task::mlm && values.list("text").size() < 2)
    refuse_options(values, {"first-length"}, "it limits the first of two texts, and --text names no two columns");
}

std::vector<Option> line_options() { return options_named(words); }

std::string labels_of_set(const std::vector<std::string>& labels, const std::vector<std::uint8_t>& set) {
  std::vector<std::string> found;
  for (std::size_t i = 0; i < set.size(); ++i)
    if (set[i]) found.push_back(labels[i]);
  return join(found, std::string(1, data::Table::label_separator).c_str());
}

Option adapter_option() {
  return {.name = "adapter",
          .type = OptionType::path,
          .group = "Model",
          .help = "a LoRA adapter of PEFT, which is merged into the dense weights of MODEL while they are read",
          .metavar = "DIR",
          .result_relevant = true,
          .files = FileUse::read};
}

std::string adapter_of(const OptionValues& values) { return values.has("adapter") ? values.text("adapter") : ""; }

std::vector<Option> reading_options() {
  constexpr const char* of_masks[] = {"first-length", "whole-words", "mask-probability"};
  std::vector<Option> options = line_options();
  for (Option& option : options_named(of_masks)) options.push_back(std::move(option));
  options.insert(options.begin(),
                 {.name = "data",
                  .type = OptionType::list,
                  .group = "Data",
                  .help = "files to evaluate on: .txt, .csv, .tsv or .jsonl, plain, .gz or .zst; globs are allowed",
                  .metavar = "FILE,...",
                  .result_relevant = true,
                  .files = FileUse::read});
  return options;
}

std::shared_ptr<const data::Tokenizer> open_tokenizer(const OptionValues& values, const std::string& fallback) {
  if (!values.has("tokenizer") && fallback.empty())
    fail_input("[{}] --tokenizer is missing: name a tokenizer.json, a vocab.txt, a .model or a folder with one",
               values.table().verb());
  const data::LetterCase letter_case = case_named(values.text("case"));
  auto tokenizer = data::load_tokenizer(values.has("tokenizer") ? values.text("tokenizer") : fallback, letter_case);
  if (letter_case != data::LetterCase::automatic && !dynamic_cast<const data::WordPiece*>(tokenizer.get()))
    refuse_options(values, {"case"}, fmt::format("{} is no vocab.txt", tokenizer->source()));
  require_vocabulary_of(fallback, *tokenizer);
  return tokenizer;
}

void require_own_vocabulary(const std::string& folder) {
  if (!is_folder(folder) || !train::recipe_of_model(folder)) return;
  io::Reading reading = reading_of(folder);
  std::shared_ptr<const data::Tokenizer> tokenizer;
  try {
    tokenizer = data::load_tokenizer(folder, case_named(reading["case"]));
  } catch (const InputError&) {
    return;  // models of images and clicks have none
  }
  require_vocabulary_of(folder, *tokenizer);
}

std::shared_ptr<const data::ChatTemplate> open_chat(const OptionValues& values, const data::Tokenizer& tokenizer) {
  if (!values.flag("chat")) return nullptr;
  data::require_chat_tokenizer(tokenizer);
  return data::load_chat_template(tokenizer.source());
}

data::DataSpec reading_spec(const OptionValues& values, const StoredModel& stored,
                            const std::vector<std::string>& files) {
  data::DataSpec spec;
  spec.files = files;
  spec.task = models::common(stored.spec).task;
  spec.format = data::format_named(values.text("data-format"));
  spec.text = values.list("text");
  spec.text_asked = values.given("text");
  if (data::learns_labels(spec.task) && values.has("label")) spec.label = values.text("label");
  spec.max_length = values.integer("seq");
  if (values.table().find("first-length") && values.has("first-length"))
    spec.first_length = values.integer("first-length");
  spec.ends = values.flag("document-end");
  spec.chat = open_chat(values, *stored.tokenizer);
  return spec;
}

StoredModel open_stored_model(OptionValues& values, const std::string& folder) {
  io::require_model_folder(fmt::format("[{}]", values.table().verb()), folder);
  StoredModel stored;
  stored.folder = folder;
  stored.reading = reading_of(folder);
  follow(values, stored.reading);
  stored.spec = models::spec_from_folder(folder);
  settle_task(values, stored);
  models::run_on_grids(stored.spec);
  if (const auto* dlrm = std::get_if<models::DlrmSpec>(&stored.spec)) {
    stored.features = data::FeatureMap::load(dlrm->inputs, folder);
  } else if (const auto* vit = std::get_if<models::VitSpec>(&stored.spec)) {
    stored.frame = frame_of_folder(*vit, folder);
  } else {
    stored.tokenizer = open_tokenizer(values, folder);
    settle_length(values, stored.spec);
    check_lengths(values, stored.spec, *stored.tokenizer);
  }
  stored.open = open_machine(values, values.text("dtype"));
  const plan::Machine& machine = stored.open.machine;
  stored.engine = std::make_unique<engine::Engine>(machine, models::factory_of(stored.spec, machine.dtype),
                                                   engine::EngineOptions{});
  engine::check_weights(folder, stored.engine->model());
  stored.engine->allocate();
  engine::load_weights(folder, stored.engine->weights(), {.fresh = {}, .may_miss = {}, .adapter = adapter_of(values)});
  stored.engine->weights_changed();
  return stored;
}

}  // namespace comera::tools
