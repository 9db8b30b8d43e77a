#include "lib/train/memory_options.h"

#include <map>

#include "lib/core/error.h"
#include "lib/core/join.h"
#include "lib/core/options/rule.h"
#include "lib/layers/activations/policy.h"

namespace comera::train {
namespace {

Option activations_option(const char* group) {
  return {
      .name = "activations",
      .type = OptionType::list,
      .group = group,
      .help =
          "how values are kept for the backward pass: keep; cheap or block, computed again; share, cheap with inputs "
          "of norms restored from their outputs; bf16, rounded copies; int8 or int4, integer copies (-stochastic: "
          "rounded "
          "without bias); act2bit, the slope of GELU in two bits (-approxbp: ReGELU2); compact, random projections of "
          "the inputs of linear layers; velora, their products with one vector per dense layer; offload, in host "
          "memory "
          "(GPUs); GLOB=POLICY for layers by name, GLOB=block for blocks",
      .metavar = "[GLOB=]POLICY,...",
      .result_relevant = true,
      .relevant_words = layers::relevant_words,
      .default_words = "keep",
      .suggested = {"keep", "cheap", "share", "block", "bf16", "int8", "int4", "act2bit", "compact", "velora",
                    "offload"},
      .synonyms = {"gradient-checkpointing", "activation-checkpointing", "recompute"},
      .earlier_name = "recompute"};
}

Option optimizer_option(const char* group) {
  return {
      .name = "optimizer",
      .type = OptionType::list,
      .group = group,
      .help =
          "the update of weights: adamw; adagrad (a sum of squares per number) and sgd (no state, no momentum), of "
          "all weights but rank diagonals, with weight decay apart from the gradient; muon (one moment, replaced by "
          "a matrix with singular values near 1) of linear weights in TT or low-rank form, and of dense ones by "
          "name. The others are for dense linear weights, with AdamW for the rest: adamw8bit stores moments in 8 "
          "bits; galore has them in the subspace of a gradient's first singular vectors, galore8bit in 8 bits there; "
          "apollo-mini stores a row of moments per weight and scales the gradient by them; lomo (no state) and "
          "adalomo (one mean per row and column) update weights of blocks in the backward and free each gradient; "
          "GLOB=METHOD for layers by name; the last whose method takes a weight counts",
      .metavar = "[GLOB=]METHOD,...",
      .result_relevant = true,
      .relevant_words = [](const std::vector<std::string>& words) { return counted_methods(words); },
      .default_words = "adamw",
      .suggested = method_names(),
      .synonyms = {"optim"}};
}

constexpr const char* compact_group = "Projections of --activations compact";
constexpr const char* velora_group = "Groups of --activations velora";
constexpr const char* offload_group = "Copies of --activations offload";
constexpr const char* galore_group = "Subspaces of --optimizer galore";
constexpr const char* lomo_group = "Updates of --optimizer lomo";

Option number_in(const char* group, const char* name, const char* value, const char* help) {
  return {.name = name,
          .type = OptionType::real,
          .default_text = value,
          .group = group,
          .help = help,
          .result_relevant = true,
          .minimum = 0};
}

Option count_in(const char* group, const char* name, const char* value, std::int64_t least, const char* help) {
  return {.name = name,
          .type = OptionType::integer,
          .default_text = value,
          .group = group,
          .help = help,
          .result_relevant = true,
          .minimum = static_cast<double>(least)};
}

// CompAct (arXiv 2410.15352): its constants of pretraining are the defaults.
std::vector<Option> compact_options() {
  std::vector<Option> rows = {
      number_in(compact_group, "compact-ratio", "0.25", "size of a projection relative to the input of its layer"),
      count_in(compact_group, "compact-rank", "0", 0,
               "size of all projections, in place of --compact-ratio; 0: by the ratio"),
      {.name = "compact-sketch",
       .type = OptionType::choice,
       .default_text = "count",
       .group = compact_group,
       .help = "kind of the random projection; count has one sign per row and costs no product",
       .choices = {"count", "normal", "sparse", "orthonormal"},
       .result_relevant = true},
      count_in(compact_group, "compact-refresh", "50", 1,
               "steps between projections of a dense weight; those of tensor trains change in every step"),
      number_in(compact_group, "compact-scale", "0.25", "scale of the updates of dense weights in their subspace"),
      number_in(compact_group, "compact-beside", "0.5",
                "the same of the attention's output layer, whose gradient is exact, relative to --compact-scale"),
      {.name = "compact-shared",
       .type = OptionType::flag,
       .default_text = "false",
       .group = compact_group,
       .help = "one projection for all layers of equal size: those that read the same input keep it once",
       .result_relevant = true}};
  rows.front().maximum = 1;
  return rows;
}

// VeLoRA (arXiv 2405.17991): the constants of its pretraining are the defaults.
std::vector<Option> velora_options() {
  return {count_in(velora_group, "velora-group", "8", 2,
                   "inputs per group, of which one product is kept; it divides the inputs of the layers"),
          number_in(velora_group, "velora-scale", "1", "scale of the weight gradients")};
}

// MEMO (arXiv 2407.12117). Values and results do not depend on them.
std::vector<Option> offload_options() {
  std::vector<Option> rows = {
      number_in(offload_group, "offload-bandwidth", "20", "GB per second that copies to the host reach"),
      number_in(offload_group, "offload-speed", "50", "TFLOPs per second that a forward reaches"),
      {.name = "offload-memory",
       .type = OptionType::size,
       .default_text = "16GiB",
       .group = offload_group,
       .help = "pinned host memory at most"}};
  for (Option& option : rows) option.result_relevant = false;
  return rows;
}

// GaLore (arXiv 2403.03507): its constants of pretraining are the defaults.
std::vector<Option> galore_options() {
  return {count_in(galore_group, "galore-rank", "128", 1, "size of a subspace, at most the smaller side of a weight"),
          count_in(galore_group, "galore-refresh", "200", 1, "steps between new subspaces"),
          number_in(galore_group, "galore-scale", "0.25", "scale of the updates in a subspace")};
}

layers::OffloadSettings offload_settings(const OptionValues& values, bool offloads) {
  layers::OffloadSettings settings;
  settings.bandwidth = values.real("offload-bandwidth") * 1e9;
  settings.speed = values.real("offload-speed") * 1e12;
  settings.host_bytes = static_cast<double>(values.size("offload-memory"));
  if (offloads && !values.text("device").starts_with("cuda"))
    fail_input(
        "[train] --activations offload: it copies values from a GPU to host memory, and --device {} has them there; "
        "use cheap, which is exact too, or --device cuda",
        values.text("device"));
  if (offloads && settings.speed == 0)
    fail_input("[train] --offload-speed 0: a forward would never end; use 50, or the TFLOPs per second of your GPU");
  return settings;
}

layers::ProjectedSettings projected_settings(const OptionValues& values) {
  static const std::map<std::string, kernels::SketchKind> kinds = {{"count", kernels::SketchKind::count},
                                                                   {"normal", kernels::SketchKind::normal},
                                                                   {"sparse", kernels::SketchKind::sparse},
                                                                   {"orthonormal", kernels::SketchKind::orthonormal}};
  layers::ProjectedSettings settings;
  settings.kind = kinds.at(values.text("compact-sketch"));
  settings.ratio = values.real("compact-ratio");
  settings.rank = values.integer("compact-rank");
  settings.refresh = values.integer("compact-refresh");
  settings.scale = values.real("compact-scale");
  settings.beside = values.real("compact-beside");
  settings.shared = values.flag("compact-shared");
  if (settings.rank > 0 && values.source("compact-rank") == OptionSource::flag &&
      values.source("compact-ratio") == OptionSource::flag)
    fail_input(
        "[train] --compact-ratio {}: has no effect beside --compact-rank {}, which is the size of all projections; "
        "leave out one of them",
        values.canonical("compact-ratio"), settings.rank);
  if (settings.ratio == 0) fail_input("[train] --compact-ratio 0: a projection needs at least one column; use 0.25");
  return settings;
}

// Settings of the command line for words of --activations or --optimizer that the call does not have.
struct SettingsOf {
  const char* option;              // the list of words
  std::vector<const char*> words;  // the settings are for these
  std::vector<const char*> names;
};

std::vector<SettingsOf> settings_of_words() {
  return {{"activations",
           {"compact"},
           {"compact-ratio", "compact-rank", "compact-sketch", "compact-refresh", "compact-scale", "compact-beside",
            "compact-shared"}},
          {"activations", {"velora"}, {"velora-group", "velora-scale"}},
          {"activations", {"offload"}, {"offload-bandwidth", "offload-speed", "offload-memory"}},
          {"optimizer", {"galore", "galore8bit"}, {"galore-rank", "galore-refresh", "galore-scale"}},
          {"optimizer", {"lomo", "adalomo"}, {"lomo-scale"}},
          {"optimizer", {"lomo"}, {"lomo-clip"}}};
}

bool asks_for(const OptionValues& values, const SettingsOf& settings) {
  for (const std::string& text : values.list(settings.option))
    for (const char* word : settings.words)
      if (split_layer_word(text).value == word) return true;
  return false;
}

}  // namespace

std::vector<Option> memory_options(const char* group) {
  std::vector<Option> rows = {activations_option(group), optimizer_option(group)};
  for (Option& option : compact_options()) rows.push_back(std::move(option));
  for (Option& option : velora_options()) rows.push_back(std::move(option));
  for (Option& option : offload_options()) rows.push_back(std::move(option));
  for (Option& option : galore_options()) rows.push_back(std::move(option));
  rows.push_back(number_in(lomo_group, "lomo-scale", "1", "learning rate of lomo and adalomo as a multiple of --lr"));
  rows.push_back(number_in(lomo_group, "lomo-clip", "1", "lomo: limit of the norm of each gradient; 0: none"));
  return rows;
}

void complete_methods(OptionValues& values, const std::string& of_all) {
  const bool given = values.given("optimizer");
  const auto words = counted_methods(given ? values.list("optimizer") : std::vector<std::string>(), of_all);
  values.set("optimizer", join(words, ","), given ? values.source("optimizer") : OptionSource::fallback);
}

void settle_optimizer(OptionValues& values) { complete_methods(values, default_method(values.text("form"))); }

void refuse_settings_without_effect(const OptionValues& values) {
  // --fit and --explain try policies that the call does not name.
  for (const char* name : {"fit", "explain"})
    if (values.table().find(name) && values.source(name) == OptionSource::flag) return;
  for (const SettingsOf& settings : settings_of_words()) {
    if (asks_for(values, settings)) continue;
    for (const char* name : settings.names)
      if (values.source(name) == OptionSource::flag)
        fail_input("[{}] --{} has no effect without --{} {}; add it, or leave out --{}", values.table().verb(), name,
                   settings.option, join(settings.words, " or "), name);
  }
}

void read_memory_options(const OptionValues& values, engine::EngineOptions& engine, OptimizerOptions& optimizer) {
  layers::Activations activations = layers::parse_activations(values.list("activations"));
  activations.may_be_idle = values.has("resume") && values.source("activations") != OptionSource::flag;
  if (!activations.may_be_idle) layers::check_words_for_all(values.list("activations"));
  activations.projected = projected_settings(values);
  activations.directions = {values.integer("velora-group"), values.real("velora-scale")};
  activations.offloading = offload_settings(values, activations.offloads());
  optimizer.methods.rules = parse_methods(values.list("optimizer"));
  std::vector<MethodRule>& rules = optimizer.methods.rules;
  for (MethodRule& rule : rules)  // a default for all, which complete_methods() adds, may be left nothing by others
    rule.by_default = values.source("optimizer") != OptionSource::flag ||
                      (rule.glob.empty() && rules.size() > 1 && (rule.method == "adamw" || rule.method == "muon"));
  optimizer.methods.galore = {values.integer("galore-rank"), values.integer("galore-refresh"),
                              values.real("galore-scale")};
  if (rule_at_once(optimizer.methods.rules)) optimizer.max_norm = 0;  // the norm of all gradients is not known
  optimizer.methods.lomo = {values.real("lomo-scale"), values.real("lomo-clip")};
  optimizer.beside_scale = activations.projected.scale * activations.projected.beside;
  engine.recompute = activations.recompute;
  if (!activations.rules.empty()) engine.keeper = std::make_shared<layers::RuledKeeper>(activations);
}

}  // namespace comera::train
