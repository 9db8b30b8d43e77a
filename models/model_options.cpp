#include "models/model_options.h"

#include <fmt/core.h>

#include <array>
#include <iterator>
#include <utility>
#include <variant>

#include "lib/core/error.h"
#include "lib/core/units.h"
#include "lib/tt/modes.h"
#include "models/forms.h"
#include "models/presets.h"

namespace comera::models {
namespace {

constexpr const char* preset_words = "the preset's";

std::string list_presets() {
  std::string words;
  for (const Preset& preset : presets())
    words += fmt::format("{}{} ({})", words.empty() ? "" : ", ", preset.name, preset.summary);
  return words;
}

Option size_option(const char* name, const char* help, double least = 1, std::vector<std::string> synonyms = {}) {
  return {.name = name,
          .type = OptionType::integer,
          .help = help,
          .minimum = least,
          .default_words = preset_words,
          .synonyms = std::move(synonyms)};
}

Option probability_option(const char* name, const char* help) {
  return {.name = name,
          .type = OptionType::real,
          .help = help,
          .minimum = 0,
          .maximum = 0.99,
          .default_words = preset_words};
}

// Bits by the place of an architecture in ModelSpec.
constexpr unsigned encoders = 1, decoders = 2, clicks = 4, images = 8;
static_assert(std::variant_size_v<ModelSpec> == 4);

struct OwnOptions {
  unsigned owners;
  const char* words;                 // the owners in a message
  std::array<const char*, 6> names;  // null: none
};
// The options that only some architectures have.
constexpr OwnOptions own_options[] = {
    {encoders, "encoders", {"token-types", "position-deviation", "pre-norm"}},
    {decoders, "decoders", {"key-heads", "rope-theta", "head"}},
    {clicks, "models of clicks", {"bottom-mlp", "top-mlp"}},
    {images, "vision transformers", {"image-size", "patch", "channels"}},
    {encoders | decoders, "models of texts", {"positions"}},
    {encoders | decoders | images,
     "transformers",
     {"layers", "heads", "intermediate", "dropout", "attention-dropout", "norm-epsilon"}},
    {encoders | decoders | clicks,
     "models with tables",
     {"embedding-form", "embedding-rank", "embedding-order", "tt-rows"}}};

// Of the command line alone, as refuse_without_effect().
void refuse_options_of_others(const OptionValues& values, const ModelSpec& spec) {
  for (const OwnOptions& own : own_options)
    for (const char* name : own.names)
      if (name && !(own.owners >> spec.index() & 1) && values.source(name) == OptionSource::flag)
        fail_input("[model] --{} is for {}, and {} is {}; leave it out", name, own.words, values.text("model"),
                   kind_of(spec));
}

void take(const OptionValues& values, const char* name, std::int64_t& size) {
  if (values.has(name)) size = values.integer(name);
}

void take_sizes(const OptionValues& values, EncoderSpec& spec) {
  take(values, "token-types", spec.types);
  if (values.has("position-deviation")) spec.position_deviation = values.real("position-deviation");
  if (values.given("pre-norm")) spec.pre_norm = values.flag("pre-norm");
}

// The head size follows from the width. If --heads changes the number of heads, the number of key heads changes too.
void take_sizes(const OptionValues& values, DecoderSpec& spec) {
  if (spec.hidden % spec.heads != 0)
    fail_input("[model] hidden_size {} is not a multiple of num_attention_heads {}; change one of them", spec.hidden,
               spec.heads);
  spec.head_size = spec.hidden / spec.heads;
  if (values.has("heads")) spec.key_heads = spec.heads;
  take(values, "key-heads", spec.key_heads);
  if (values.has("rope-theta")) spec.theta = values.real("rope-theta");
  if (values.has("head")) spec.tied = values.text("head") == "tied";
}

std::vector<std::int64_t> widths_of(const OptionValues& values, const char* name) {
  std::vector<std::int64_t> widths;
  for (const std::string& text : values.list(name)) {
    const std::optional<std::int64_t> width = parse_integer(text);
    if (!width) fail_input("[model] --{} {}: a width must be a whole number, as in 512,256", name, text);
    widths.push_back(*width);
  }
  return widths;
}

void take_sizes(const OptionValues& values, DlrmSpec& spec) {
  if (!values.list("bottom-mlp").empty()) spec.bottom = widths_of(values, "bottom-mlp");
  if (!values.list("top-mlp").empty()) spec.top = widths_of(values, "top-mlp");
}

void take_sizes(const OptionValues& values, VitSpec& spec) {
  take(values, "image-size", spec.image);
  take(values, "patch", spec.patch);
  take(values, "channels", spec.channels);
}

void take_common(const OptionValues& values, ModelSpec& model) {
  Spec& spec = common(model);
  take(values, "layers", spec.layers);
  take(values, "hidden", spec.hidden);
  take(values, "heads", spec.heads);
  take(values, "intermediate", spec.intermediate);
  take(values, "positions", spec.positions);
  if (values.has("dropout")) set_dropout(model, values.real("dropout"));
  if (values.has("attention-dropout")) spec.attention_dropout = values.real("attention-dropout");
  if (values.has("norm-epsilon")) spec.epsilon = values.real("norm-epsilon");
}

void take_facts(const DataFacts& facts, Spec& spec) {
  spec.task = facts.task;
  if (spec.task == Task::ctr) return;
  if (facts.vocabulary) spec.vocabulary = *facts.vocabulary;
  if (facts.pad) spec.pad = *facts.pad;
  if (!facts.labels.empty()) spec.labels = facts.labels;
  if (facts.task == Task::regression) spec.labels = {regression_label};
  if (!data::learns_labels(facts.task) && facts.task != Task::image) spec.labels.clear();
  if (spec.task != Task::image && facts.max_length > spec.positions)
    fail_input(
        "[model] sequences of {} tokens are longer than the model's {} positions; use --seq {} or --positions {}",
        facts.max_length, spec.positions, spec.positions, facts.max_length);
}

void take_pieces(const DataFacts&, EncoderSpec&) {}
void take_pieces(const DataFacts&, VitSpec& spec) { spec.positions = spec.tokens(); }
void take_pieces(const DataFacts& facts, DlrmSpec& spec) {
  if (facts.features) spec.inputs = facts.features->schema();
}
void take_pieces(const DataFacts& facts, DecoderSpec& spec) {
  if (facts.begin) spec.begin = *facts.begin;
  if (facts.end) spec.end = {*facts.end};
}

std::vector<LayerRule> exceptions_of(const OptionValues& values, const Preset& preset) {
  std::vector<LayerRule> rules;
  for (const std::string& text : preset.layers) {
    LayerRule& rule = rules.emplace_back(parse_layer_rule(text));
    rule.of_preset = true;
    if (values.has("rank")) rule.rank.reset();
  }
  for (const std::string& text : values.list("layer")) rules.push_back(parse_layer_rule(text));
  return rules;
}

// None: the form of the other weights.
std::optional<Form> table_form(const OptionValues& values, const Preset& preset) {
  const std::string& word = values.text("embedding-form");
  if (const std::optional<Form> form = form_named(word)) return form;
  const bool pairs = word == "preset" && preset.pair_tables && values.text("form") != "dense";
  return pairs ? std::optional(Form::lowrank) : std::nullopt;
}

FormRules rules_from(const OptionValues& values, const Preset& preset, const Spec& spec) {
  FormRules rules;
  const std::string& form = values.text("form");
  if (form == "auto") fail_input("[model] --form auto is chosen by --fit SIZE; add it, or use dense, tt or lowrank");
  rules.form = form_named(form).value();
  rules.rank = values.has("rank") ? values.integer("rank") : preset.rank;
  rules.table_form = table_form(values, preset);
  rules.table_form_asked = form_named(values.text("embedding-form")).has_value();
  rules.embedding_rank = embedding_rank(values, preset, spec);
  if (values.text("between") != "none") rules.between = layers::activation_named(values.text("between"));
  rules.least_rows = preset.least_rows, rules.least_entries = preset.least_entries;
  if (values.has("tt-rows")) rules.least_rows = values.integer("tt-rows");
  if (values.has("tt-entries")) rules.least_entries = values.integer("tt-entries");
  rules.order = static_cast<int>(values.integer("order"));
  rules.embedding_order = static_cast<int>(values.integer("embedding-order"));
  for (const std::string& text : values.list("modes")) rules.modes.push_back(tt::parse_modes(text));
  rules.layers = exceptions_of(values, preset);
  return rules;
}

std::vector<Option> form_options() {
  std::vector<Option> rows{{.name = "form",
                            .type = OptionType::choice,
                            .default_text = "tt",
                            .help = "form of the linear weights and the word table",
                            .choices = {"dense", "tt", "lowrank"}},
                           {.name = "rank",
                            .type = OptionType::integer,
                            .help = "inner ranks of linear weights",
                            .minimum = 1,
                            .default_words = preset_words,
                            .synonyms = {"lora-rank", "lora-r"}},
                           {.name = "embedding-form",
                            .type = OptionType::choice,
                            .default_text = "preset",
                            .help = "form of tables of words and of decoders of words; same: that of --form; preset: "
                                    "the same, but low rank in llama-6m and dense in models of code",
                            .choices = {"preset", "same", "dense", "tt", "lowrank"}},
                           {.name = "embedding-rank",
                            .type = OptionType::integer,
                            .help = "inner ranks of the word table",
                            .minimum = 1,
                            .default_words = preset_words},
                           {.name = "between",
                            .type = OptionType::choice,
                            .default_text = "none",
                            .help = "activation between the two factors of low-rank linear weights (CoLA)",
                            .choices = {"none", "silu", "gelu", "tanh"}},
                           {.name = "order",
                            .type = OptionType::integer,
                            .default_text = "3",
                            .help = "modes on each side of a TT weight",
                            .minimum = 1,
                            .maximum = 8},
                           {.name = "embedding-order",
                            .type = OptionType::integer,
                            .default_text = "4",
                            .help = "modes on each side of the TTM word table",
                            .minimum = 2,
                            .maximum = 8},
                           {.name = "modes",
                            .type = OptionType::list,
                            .help = "modes for every weight of that size: in modes, then out modes",
                            .metavar = "12x8x8|8x8x12"},
                           {.name = "tt-rows",
                            .type = OptionType::integer,
                            .help = "tables with fewer rows stay dense",
                            .minimum = 0,
                            .default_words = preset_words},
                           {.name = "tt-entries",
                            .type = OptionType::integer,
                            .help = "linear weights with fewer entries stay dense",
                            .minimum = 0,
                            .default_words = preset_words},
                           {.name = "layer",
                            .type = OptionType::list,
                            .help = "exception for weights by name: rank:, form:, modes:, separated by ';'",
                            .metavar = "GLOB=rank:16"}};
  return rows;
}

std::vector<Option> size_options() {
  return {
      size_option("layers", "number of blocks", 1, {"num-layers", "num-hidden-layers", "depth"}),
      size_option("hidden", "width of the model; dlrm: of its tables", 1, {"hidden-size", "d-model", "dim", "width"}),
      size_option("heads", "attention heads", 1, {"num-heads", "num-attention-heads"}),
      size_option("key-heads", "heads of keys and values (decoders)"),
      size_option("intermediate", "width of the feed-forward layer", 1, {"intermediate-size", "ffn-dim"}),
      size_option("positions", "longest sequence", 1, {"max-position-embeddings"}),
      size_option("token-types", "token types; 0 for none", 0),
      size_option("image-size", "pixels along an edge of the images (vit)"),
      size_option("patch", "pixels along an edge of a patch (vit)"),
      {.name = "channels",
       .type = OptionType::integer,
       .help = "1: gray images, 3: colours (vit)",
       .minimum = 1,
       .maximum = 3,
       .default_words = preset_words},
      {.name = "bottom-mlp",
       .type = OptionType::list,
       .help = "widths of the hidden layers between the numbers and the vectors (dlrm)",
       .metavar = "N,...",
       .default_words = preset_words},
      {.name = "top-mlp",
       .type = OptionType::list,
       .help = "widths of the hidden layers between the interactions and the logit (dlrm)",
       .metavar = "N,...",
       .default_words = preset_words},
      probability_option("dropout", "dropout of embeddings, residual branches, attention and head"),
      probability_option("attention-dropout", "dropout of attention probabilities alone"),
      {.name = "norm-epsilon",
       .type = OptionType::real,
       .help = "epsilon of the norms",
       .minimum = 0,
       .default_words = preset_words},
      {.name = "position-deviation",
       .type = OptionType::real,
       .help = "initial standard deviation of position and type rows, relative to that of the word rows",
       .minimum = 0,
       .default_words = preset_words},
      {.name = "pre-norm",
       .type = OptionType::flag,
       .help = "place norms before attention and feed-forward (pre-LN) instead of after"},
      {.name = "rope-theta",
       .type = OptionType::real,
       .help = "base of the rotary positions (decoders)",
       .minimum = 1,
       .default_words = preset_words},
      {.name = "head",
       .type = OptionType::choice,
       .help = "tied: the word table is also the head; own: the head has its own table (decoders)",
       .choices = {"tied", "own"},
       .default_words = preset_words}};
}

}  // namespace

std::int64_t embedding_rank(const OptionValues& values, const Preset& preset, const Spec& spec) {
  if (values.has("embedding-rank")) return values.integer("embedding-rank");
  if (!preset.pair_tables || table_form(values, preset) != Form::lowrank) return preset.embedding_rank;
  return std::clamp<std::int64_t>(spec.hidden / 4, 1, spec.vocabulary);
}

std::vector<Option> model_options() {
  std::vector<Option> rows{{.name = "model",
                            .type = OptionType::string,
                            .default_text = "encoder-small",
                            .help = "preset: " + list_presets(),
                            .metavar = "PRESET",
                            .synonyms = {"preset", "arch", "architecture", "model-name-or-path", "config-name"}}};
  for (const Preset& preset : presets()) rows[0].suggested.push_back(preset.name);
  for (auto make : {form_options, size_options})
    for (Option& option : make()) rows.push_back(std::move(option));
  for (Option& option : rows) {
    option.group = "Model";
    option.result_relevant = true;
  }
  return rows;
}

ModelSpec sized_spec(const OptionValues& values) {
  ModelSpec spec = find_preset(values.text("model")).spec;
  refuse_options_of_others(values, spec);
  take_common(values, spec);
  std::visit([&](auto& one) { take_sizes(values, one); }, spec);
  return spec;
}

ModelSpec spec_from_options(const OptionValues& values, const DataFacts& facts) {
  const Preset& preset = find_preset(values.text("model"));
  ModelSpec spec = sized_spec(values);
  std::visit([&](auto& one) { take_pieces(facts, one); }, spec);
  take_facts(facts, common(spec));
  check(spec);
  apply_forms(spec, rules_from(values, preset, common(spec)));
  return spec;
}

}  // namespace comera::models
