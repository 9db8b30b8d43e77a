#include "models/encoder_config.h"

#include <algorithm>
#include <cmath>

#include "lib/core/error.h"
#include "lib/io/tt_format.h"

namespace comera::models {
namespace {

using io::Json;

constexpr const char* bert = "bert";
constexpr const char* pre_norm_roberta = "roberta-prelayernorm";

const char* architecture_of(const EncoderSpec& spec) {
  if (spec.pre_norm) return spec.task == Task::classify ? "RobertaPreLayerNormForSequenceClassification" : "RobertaPreLayerNormForMaskedLM";
  return spec.task == Task::classify ? "BertForSequenceClassification" : "BertForMaskedLM";
}

// RoBERTa counts positions from pad + 1, so its table has that many rows more than the longest sequence has tokens.
std::int64_t position_rows(const EncoderSpec& spec) { return spec.positions + (spec.pre_norm ? spec.pad + 1 : 0); }

Json labels_json(const EncoderSpec& spec) {
  Json names = Json::object();
  for (std::size_t i = 0; i < spec.labels.size(); ++i) names[std::to_string(i)] = spec.labels[i];
  return names;
}

io::ChainSpec chain_of(const layers::TensorTrain& train) {
  io::ChainSpec chain;
  chain.name = train.name;
  chain.kind = train.form == Form::ttm ? io::ChainKind::ttm : io::ChainKind::tt;
  chain.shape = {train.rows, train.columns};
  chain.modes = train.modes;
  chain.ranks = train.ranks;
  chain.initial_ranks = train.initial_ranks;
  return chain;
}

// Reads one file's keys; every complaint names file and key.
class Reader {
 public:
  Reader(const Json& config, const std::string& name) : config_(config), name_(name) {}

  std::int64_t integer(const char* key, std::optional<std::int64_t> otherwise = {}) const {
    const Json* value = find(key, otherwise.has_value());
    if (!value) return *otherwise;
    if (!value->is_number_integer()) fail_input("{}: {} is {}; it must be a whole number", name_, key, value->dump());
    return value->get<std::int64_t>();
  }
  double real(const char* key, std::optional<double> otherwise = {}) const {
    const Json* value = find(key, otherwise.has_value());
    if (!value) return *otherwise;
    if (!value->is_number() || !std::isfinite(value->get<double>())) fail_input("{}: {} is {}; it must be a number", name_, key, value->dump());
    return value->get<double>();
  }
  std::string text(const char* key, const std::string& otherwise) const {
    const Json* value = find(key, true);
    if (!value) return otherwise;
    if (!value->is_string()) fail_input("{}: {} is {}; it must be a text", name_, key, value->dump());
    return value->get<std::string>();
  }
  // A value that would change the arithmetic in a way that is not supported.
  void require(const char* key, const std::string& supported) const {
    const std::string found = text(key, supported);
    if (found != supported) fail_input("{}: {} is '{}'; only '{}' is supported", name_, key, found, supported);
  }
  void require_off(const char* key) const {
    const Json* value = find(key, true);
    if (value && value->is_boolean() && value->get<bool>()) fail_input("{}: {} is true; only false is supported", name_, key);
  }
  std::string architecture() const {
    const Json* value = find("architectures", true);
    if (!value || !value->is_array() || value->empty() || !value->front().is_string())
      fail_input("{}: 'architectures' is missing; it must be a list that names one, like [\"BertForSequenceClassification\"]", name_);
    return value->front().get<std::string>();
  }
  std::vector<std::string> labels() const {
    const Json* names = find("id2label", false);
    if (!names->is_object()) fail_input("{}: id2label is {}; it must map \"0\", \"1\", ... to labels", name_, names->dump());
    std::vector<std::string> labels;
    for (std::size_t i = 0; i < names->size(); ++i) {
      const auto found = names->find(std::to_string(i));
      if (found == names->end() || !found->is_string())
        fail_input("{}: id2label has no text for \"{}\"; its keys must be \"0\" to \"{}\"", name_, i, names->size() - 1);
      labels.push_back(found->get<std::string>());
      if (std::find(labels.begin(), labels.end() - 1, labels.back()) != labels.end() - 1)
        fail_input("{}: id2label has '{}' twice; labels must differ", name_, labels.back());
    }
    const auto count = static_cast<std::int64_t>(labels.size());
    if (integer("num_labels", count) != count)
      fail_input("{}: num_labels is {}, but id2label has {} entries; correct one of them", name_, integer("num_labels", count), count);
    return labels;
  }

 private:
  const Json* find(const char* key, bool optional) const {
    const auto found = config_.find(key);
    if (found != config_.end() && !found->is_null()) return &*found;
    if (!optional) fail_input("{}: '{}' is missing; is this the config.json of an encoder?", name_, key);
    return nullptr;
  }

  const Json& config_;
  const std::string& name_;
};

void read_heads(EncoderSpec& spec, const Reader& reader, const std::string& name) {
  const std::string architecture = reader.architecture();
  if (architecture.ends_with("ForSequenceClassification")) {
    spec.task = Task::classify;
    spec.labels = reader.labels();
  } else if (architecture.ends_with("ForMaskedLM")) {
    spec.task = Task::mlm;
  } else {
    fail_input("{}: architecture {} has no head to train or evaluate; supported are ...ForSequenceClassification and ...ForMaskedLM", name,
               architecture);
  }
}

void read_forms(EncoderSpec& spec, const Json& config, const std::string& name) {
  const std::optional<io::ComeraBlock> block = io::parse_comera_block(config, name);
  if (!block) return;
  const std::vector<WeightSite> sites = weight_sites(spec);
  for (const io::ChainSpec& chain : block->chains) {
    const WeightSite* site = nullptr;
    for (const WeightSite& candidate : sites)
      if (candidate.name == chain.name) site = &candidate;
    if (!site) fail_input("{}: comera block: the model has no weight {} that can be a tensor train", name, chain.name);
    if (chain.shape != io::FileShape{site->rows, site->columns} || (chain.kind == io::ChainKind::ttm) != site->table)
      fail_input("{}: comera block: {} is a {} of shape {}; the model's sizes make it a {} of [{}, {}]", name, chain.name,
                 chain.kind == io::ChainKind::ttm ? "table" : "linear weight", io::to_string(chain.shape), site->table ? "table" : "linear weight",
                 site->rows, site->columns);
    const Form form = site->table ? Form::ttm : chain.modes.size() == 2 ? Form::lowrank : Form::tt;
    spec.forms[chain.name] = {form, chain.modes, chain.ranks, chain.initial_ranks};
  }
}

}  // namespace

std::string to_config_json(const EncoderSpec& spec, const layers::Model& model) {
  Json config;
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
  config["torch_dtype"] = "float32";
  if (spec.task == Task::classify) {
    config["id2label"] = labels_json(spec);
    for (std::size_t i = 0; i < spec.labels.size(); ++i) config["label2id"][spec.labels[i]] = i;
  }
  io::ComeraBlock block;
  for (const layers::TensorTrain& train : model.tensor_trains()) block.chains.push_back(chain_of(train));
  if (!block.chains.empty()) {
    if (std::isfinite(model.threshold())) block.threshold = model.threshold();
    config["comera"] = io::to_json(block);
  }
  return io::json_text(config);
}

EncoderSpec parse_config_json(const std::string& text, const std::string& name) {
  const Json config = io::parse_json(text, name);
  if (!config.is_object()) fail_input("{}: is not a JSON object; is this a config.json?", name);
  const Reader reader(config, name);
  const std::string type = reader.text("model_type", "");
  if (type != bert && type != pre_norm_roberta)
    fail_input("{}: model_type is '{}'; supported here are '{}' and '{}'", name, type, bert, pre_norm_roberta);
  reader.require("hidden_act", "gelu");
  reader.require("position_embedding_type", "absolute");
  reader.require_off("is_decoder");
  reader.require_off("add_cross_attention");
  EncoderSpec spec;
  spec.pre_norm = type == pre_norm_roberta;
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
  read_heads(spec, reader, name);
  try {
    check(spec);
  } catch (const InputError& error) {
    fail_input("{}: {}", name, error.what());
  }
  read_forms(spec, config, name);
  return spec;
}

}  // namespace comera::models
