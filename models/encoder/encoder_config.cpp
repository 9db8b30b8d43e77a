#include "models/encoder/encoder_config.h"

#include <nlohmann/json.hpp>

#include "lib/core/error.h"
#include "lib/core/terminal/log.h"

namespace comera::models {
namespace {

using io::Json;

constexpr const char* bert = "bert";
constexpr const char *regression = "regression", *single_label = "single_label_classification";  // problem_type
constexpr const char* pre_norm_roberta = "roberta-prelayernorm";

const char* architecture_of(const EncoderSpec& spec) {
  switch (spec.task) {
    case Task::classify:
    case Task::regression:
      return spec.pre_norm ? "RobertaPreLayerNormForSequenceClassification" : "BertForSequenceClassification";
    case Task::mlm: return spec.pre_norm ? "RobertaPreLayerNormForMaskedLM" : "BertForMaskedLM";
    default: return spec.pre_norm ? "RobertaPreLayerNormModel" : "BertModel";
  }
}

// RoBERTa counts positions from pad + 1, so its table has pad + 1 rows more than the longest sequence.
std::int64_t position_rows(const EncoderSpec& spec) { return spec.positions + (spec.pre_norm ? spec.pad + 1 : 0); }

Json labels_json(const EncoderSpec& spec) {
  Json names = Json::object();
  for (std::size_t i = 0; i < spec.labels.size(); ++i) names[std::to_string(i)] = spec.labels[i];
  return names;
}

// Same rules as transformers: one output is a regression unless problem_type differs. Without problem_type, the number
// of outputs decides.
void read_labels(EncoderSpec& spec, const ConfigReader& reader) {
  const bool one = !reader.has("id2label") && reader.has("num_labels") && reader.integer("num_labels") == 1;
  spec.labels = one ? std::vector<std::string>{regression_label} : reader.labels();
  const std::string type = reader.text("problem_type", spec.labels.size() == 1 ? regression : single_label);
  if (type != regression && type != single_label)
    fail_input("{}: problem_type is '{}'; only '{}' and '{}' are supported", reader.name(), printable(type),
               single_label, regression);
  spec.task = type == regression ? Task::regression : Task::classify;
}

void read_heads(EncoderSpec& spec, const ConfigReader& reader, const StoredNames& names) {
  const std::string architecture = reader.architecture();
  if (architecture.ends_with("ForSequenceClassification")) {
    read_labels(spec, reader);
  } else if (architecture.ends_with("ForMaskedLM")) {
    spec.task = Task::mlm;
  } else if (architecture == "BertModel" || architecture == "RobertaPreLayerNormModel") {
    spec.task = Task::embed;
    spec.bare = names.bare;
    spec.pooler = names.pooler;
  } else {
    fail_input("{}: architecture {} is not supported; ...Model, ...ForSequenceClassification and ...ForMaskedLM are",
               reader.name(), architecture);
  }
}

}  // namespace

std::string to_config_json(const EncoderSpec& spec, const layers::Model& model) {
  Json config = config_start(spec);
  config["architectures"] = Json::array({architecture_of(spec)});
  config["model_type"] = spec.pre_norm ? pre_norm_roberta : bert;
  config["vocab_size"] = spec.vocabulary;
  config["hidden_size"] = spec.hidden;
  config["num_hidden_layers"] = spec.layers;
  config["num_attention_heads"] = spec.heads;
  config["intermediate_size"] = spec.intermediate;
  config["max_position_embeddings"] = position_rows(spec);
  config["type_vocab_size"] = spec.types;
  config["hidden_act"] = "gelu";
  config["layer_norm_eps"] = spec.epsilon;
  config["hidden_dropout_prob"] = spec.dropout;
  config["attention_probs_dropout_prob"] = spec.attention_dropout;
  config["position_embedding_type"] = "absolute";
  config["pad_token_id"] = spec.pad;
  config["tie_word_embeddings"] = true;
  config["torch_dtype"] = torch_dtype(model);
  if (spec.task == Task::regression) config["problem_type"] = regression, config["num_labels"] = 1;
  if (data::learns_labels(spec.task)) {
    config["id2label"] = labels_json(spec);
    for (std::size_t i = 0; i < spec.labels.size(); ++i) config["label2id"][spec.labels[i]] = i;
  }
  write_forms(config, model);
  return io::json_text(config);
}

bool is_encoder_type(const std::string& type) { return type == bert || type == pre_norm_roberta; }

StoredNames names_in(const io::ModelFolder& folder) {
  StoredNames names{true, false};
  for (const io::ModelFolder::Entry& entry : folder.entries()) {
    const std::string& name = entry.tensor.name;
    names.bare = names.bare && !name.starts_with("bert.") && !name.starts_with("roberta_prelayernorm.");
    names.pooler = names.pooler || name.ends_with("pooler.dense.bias");
  }
  return names;
}

EncoderSpec parse_encoder_config(const ConfigReader& reader, const StoredNames& names) {
  reader.require("hidden_act", "gelu");
  reader.require("position_embedding_type", "absolute");
  reader.require_off("is_decoder");
  reader.require_off("add_cross_attention");
  EncoderSpec spec;
  spec.source = reader.config().dump();
  spec.pre_norm = reader.text("model_type", bert) == pre_norm_roberta;
  spec.vocabulary = reader.integer("vocab_size");
  spec.hidden = reader.integer("hidden_size");
  spec.layers = reader.integer("num_hidden_layers");
  spec.heads = reader.integer("num_attention_heads");
  spec.intermediate = reader.integer("intermediate_size");
  spec.pad = reader.integer("pad_token_id", 0);
  spec.positions = reader.integer("max_position_embeddings") - (spec.pre_norm ? spec.pad + 1 : 0);
  spec.types = reader.integer("type_vocab_size", 2);
  spec.epsilon = reader.real("layer_norm_eps", 1e-12);
  spec.dropout = reader.real("hidden_dropout_prob", 0.1);
  spec.attention_dropout = reader.real("attention_probs_dropout_prob", 0.1);
  read_heads(spec, reader, names);
  check_and_read_forms(spec, reader);
  return spec;
}

}  // namespace comera::models
