#include "models/encoder/encoder_config.h"

#include <algorithm>
#include <iterator>

#include "lib/core/error.h"
#include "lib/core/terminal/log.h"
#include "lib/layers/relative_bias.h"
#include "models/encoder/modernbert_config.h"

namespace comera::models {
namespace {

using io::Json;

// Values of problem_type.
constexpr const char *regression = "regression", *single_label = "single_label_classification",
                     *multi_label = "multi_label_classification";

// A model_type, the beginning of the names of its architectures, and the defaults of missing keys.
struct Family {
  const char *type, *architecture;
  EncoderFamily family;
  bool pre_norm;
  std::int64_t pad;
};
constexpr Family families[] = {{"bert", "Bert", EncoderFamily::bert, false, 0},
                               {"roberta-prelayernorm", "RobertaPreLayerNorm", EncoderFamily::bert, true, 1},
                               {"roberta", "Roberta", EncoderFamily::roberta, false, 1},
                               {"distilbert", "DistilBert", EncoderFamily::distilbert, false, 0},
                               {"mpnet", "MPNet", EncoderFamily::mpnet, false, 1},
                               {"modernbert", "ModernBert", EncoderFamily::modernbert, true, 50283}};

// The keys of config.json that some families name in their own way. Null: they have none, and a fixed value.
struct Keys {
  const char *hidden = "hidden_size", *layers = "num_hidden_layers", *heads = "num_attention_heads",
             *intermediate = "intermediate_size", *dropout = "hidden_dropout_prob",
             *attention_dropout = "attention_probs_dropout_prob", *activation = "hidden_act";
  const char *types = "type_vocab_size", *epsilon = "layer_norm_eps", *head_dropout = "classifier_dropout",
             *position_kind = "position_embedding_type";
  double usual_epsilon = 1e-12, usual_dropout = 0.1;
  std::optional<double> usual_head_dropout = {};  // none: that of the branches
};
constexpr Keys distilbert_keys{.hidden = "dim",
                               .layers = "n_layers",
                               .heads = "n_heads",
                               .intermediate = "hidden_dim",
                               .dropout = "dropout",
                               .attention_dropout = "attention_dropout",
                               .activation = "activation",
                               .types = nullptr,
                               .epsilon = nullptr,
                               .head_dropout = "seq_classif_dropout",
                               .position_kind = nullptr,
                               .usual_head_dropout = 0.2};
constexpr Keys mpnet_keys{.types = nullptr, .head_dropout = nullptr, .position_kind = nullptr};
constexpr Keys modernbert_keys{.dropout = "embedding_dropout",
                               .attention_dropout = "attention_dropout",
                               .activation = "hidden_activation",
                               .types = nullptr,
                               .epsilon = "norm_eps",
                               .head_dropout = "classifier_dropout",
                               .position_kind = nullptr,
                               .usual_epsilon = 1e-5,
                               .usual_dropout = 0,
                               .usual_head_dropout = 0};

Keys keys_of(EncoderFamily family) {
  switch (family) {
    case EncoderFamily::distilbert: return distilbert_keys;
    case EncoderFamily::mpnet: return mpnet_keys;
    case EncoderFamily::modernbert: return modernbert_keys;
    default: return {};
  }
}

constexpr const char* bias_rows = "relative_attention_num_buckets";

// transformers has the numbers 32 and 1 in MPNet's code, whatever config.json says.
void require_mpnet(const ConfigReader& reader) {
  for (const auto& [key, only] : {std::pair{bias_rows, layers::RelativeBias::rows}, {"pad_token_id", std::int64_t{1}}})
    if (const std::int64_t found = reader.integer(key, only); found != only)
      fail_input("{}: {} is {}; only {} is supported", reader.name(), key, found, only);
}

const Family& family_named(const std::string& type) {
  for (const Family& family : families)
    if (type == family.type) return family;
  return families[0];
}

const Family& family_of(const EncoderSpec& spec) {
  return *std::find_if(std::begin(families), std::end(families), [&](const Family& family) {
    return family.family == spec.family && family.pre_norm == spec.pre_norm;
  });
}

const char* ending_of(Task task) {
  if (task == Task::tag) return "ForTokenClassification";
  if (data::learns_labels(task)) return "ForSequenceClassification";
  return task == Task::mlm ? "ForMaskedLM" : "Model";
}

// Same rules as transformers: one output is a regression unless problem_type differs. Without problem_type, the number
// of outputs decides.
void read_labels(EncoderSpec& spec, const ConfigReader& reader) {
  const bool one = !reader.has("id2label") && reader.has("num_labels") && reader.integer("num_labels") == 1;
  spec.labels = one ? std::vector<std::string>{regression_label} : reader.labels();
  const std::string type = reader.text("problem_type", spec.labels.size() == 1 ? regression : single_label);
  if (type != regression && type != single_label && type != multi_label)
    fail_input("{}: problem_type is '{}'; only '{}', '{}' and '{}' are supported", reader.name(), printable(type),
               single_label, multi_label, regression);
  spec.task = type == regression ? Task::regression : type == multi_label ? Task::multilabel : Task::classify;
}

void read_heads(EncoderSpec& spec, const ConfigReader& reader, const StoredNames& names) {
  const std::string architecture = reader.architecture(), beginning = family_of(spec).architecture;
  if (architecture == beginning + "ForSequenceClassification") {
    read_labels(spec, reader);
  } else if (architecture == beginning + "ForTokenClassification") {
    spec.task = Task::tag;
    spec.labels = reader.labels();
  } else if (architecture == beginning + "ForMaskedLM") {
    spec.task = Task::mlm;
  } else if (architecture == beginning + "Model") {
    spec.task = Task::embed;
    spec.bare = names.bare;
    spec.pooler = names.pooler && spec.family != EncoderFamily::distilbert && !is_modern(spec);
  } else {
    fail_input(
        "{}: architecture {} is not supported; of model_type {}, {}Model, {}ForSequenceClassification, "
        "{}ForTokenClassification and {}ForMaskedLM are",
        reader.name(), architecture, family_of(spec).type, beginning, beginning, beginning, beginning);
  }
}

}  // namespace

std::string to_config_json(const EncoderSpec& spec, const layers::Model& model) {
  const Family& family = family_of(spec);
  const Keys keys = keys_of(spec.family);
  Json config = config_start(spec);
  config["architectures"] = Json::array({std::string(family.architecture) + ending_of(spec.task)});
  config["model_type"] = family.type;
  config["vocab_size"] = spec.vocabulary;
  config[keys.hidden] = spec.hidden;
  config[keys.layers] = spec.layers;
  config[keys.heads] = spec.heads;
  config[keys.intermediate] = spec.intermediate;
  config["max_position_embeddings"] = spec.positions + first_position(spec);
  if (keys.types) config[keys.types] = spec.types;
  config[keys.activation] = "gelu";
  if (keys.epsilon) config[keys.epsilon] = spec.epsilon;
  config[keys.dropout] = spec.dropout;
  config[keys.attention_dropout] = spec.attention_dropout;
  if (keys.head_dropout && spec.head_dropout) config[keys.head_dropout] = *spec.head_dropout;
  if (keys.position_kind) config[keys.position_kind] = "absolute";
  if (is_modern(spec)) write_modernbert_config(spec, config);
  if (spec.family == EncoderFamily::mpnet) config[bias_rows] = layers::RelativeBias::rows;
  config["pad_token_id"] = spec.pad;
  config["tie_word_embeddings"] = true;
  config["torch_dtype"] = torch_dtype(model);
  if (spec.task == Task::regression) config["problem_type"] = regression, config["num_labels"] = 1;
  if (spec.task == Task::multilabel) config["problem_type"] = multi_label;
  if (data::learns_labels(spec.task)) write_labels(config, spec.labels);
  write_forms(config, model);
  return io::json_text(config);
}

bool is_encoder_type(const std::string& type) {
  return std::any_of(std::begin(families), std::end(families),
                     [&](const Family& family) { return type == family.type; });
}

StoredNames names_in(const io::ModelFolder& folder) {
  StoredNames names{.bare = true, .pooler = false};
  for (const io::ModelFolder::Entry& entry : folder.entries()) {
    const std::string& name = entry.tensor.name;
    for (const char* prefix : {"bert.", "roberta_prelayernorm.", "roberta.", "distilbert.", "mpnet.", "model."})
      names.bare = names.bare && !name.starts_with(prefix);
    names.without_transformer = names.without_transformer || name.starts_with("h.0.");
    names.pooler = names.pooler || name.ends_with("pooler.dense.bias");
  }
  return names;
}

EncoderSpec parse_encoder_config(const ConfigReader& reader, const StoredNames& names) {
  const Family& family = family_named(reader.text("model_type", families[0].type));
  const Keys keys = keys_of(family.family);
  reader.require(keys.activation, "gelu");
  if (keys.position_kind) reader.require(keys.position_kind, "absolute");
  if (family.family == EncoderFamily::mpnet) require_mpnet(reader);
  reader.require_off("is_decoder");
  reader.require_off("add_cross_attention");
  EncoderSpec spec;
  spec.source = reader.config().dump();
  spec.family = family.family;
  spec.pre_norm = family.pre_norm;
  spec.vocabulary = reader.integer("vocab_size");
  spec.hidden = reader.integer(keys.hidden);
  spec.layers = reader.integer(keys.layers);
  spec.heads = reader.integer(keys.heads);
  spec.intermediate = reader.integer(keys.intermediate);
  spec.pad = reader.integer("pad_token_id", family.pad);
  spec.positions = reader.integer("max_position_embeddings") - first_position(spec);
  spec.types = keys.types ? reader.integer(keys.types, 2) : 0;
  spec.epsilon = keys.epsilon ? reader.real(keys.epsilon, keys.usual_epsilon) : keys.usual_epsilon;
  spec.dropout = reader.real(keys.dropout, keys.usual_dropout);
  spec.attention_dropout = reader.real(keys.attention_dropout, keys.usual_dropout);
  spec.head_dropout = keys.usual_head_dropout;
  if (keys.head_dropout && reader.has(keys.head_dropout)) spec.head_dropout = reader.real(keys.head_dropout);
  read_heads(spec, reader, names);
  if (spec.task == Task::mlm && !reader.flag("tie_word_embeddings", true))
    fail_input("{}: tie_word_embeddings is false; only true is supported", reader.name());
  if (is_modern(spec)) read_modernbert_config(reader, spec);
  check_and_read_forms(spec, reader);
  return spec;
}

}  // namespace comera::models
