#include "models/vit/vit_config.h"

#include "lib/core/error.h"

namespace comera::models {
namespace {

using io::Json;

constexpr const char* architecture = "ViTForImageClassification";

}  // namespace

std::string to_config_json(const VitSpec& spec, const layers::Model& model) {
  Json config = config_start(spec);
  config["architectures"] = Json::array({architecture});
  config["model_type"] = vit_type;
  config["image_size"] = spec.image;
  config["patch_size"] = spec.patch;
  config["num_channels"] = spec.channels;
  config["hidden_size"] = spec.hidden;
  config["num_hidden_layers"] = spec.layers;
  config["num_attention_heads"] = spec.heads;
  config["intermediate_size"] = spec.intermediate;
  config["hidden_act"] = "gelu";
  config["qkv_bias"] = true;
  config["layer_norm_eps"] = spec.epsilon;
  config["hidden_dropout_prob"] = spec.dropout;
  config["attention_probs_dropout_prob"] = spec.attention_dropout;
  config["torch_dtype"] = torch_dtype(model);
  write_labels(config, spec.labels);
  write_forms(config, model);
  return io::json_text(config);
}

VitSpec parse_vit_config(const ConfigReader& reader) {
  if (reader.architecture() != architecture)
    fail_input("{}: architecture {} is not supported; of model_type {}, {} is", reader.name(), reader.architecture(),
               vit_type, architecture);
  reader.require("hidden_act", "gelu");
  if (!reader.flag("qkv_bias", true)) fail_input("{}: qkv_bias is false; only true is supported", reader.name());
  VitSpec spec;
  spec.source = reader.config().dump();
  spec.image = reader.integer("image_size", 224);
  spec.patch = reader.integer("patch_size", 16);
  spec.channels = reader.integer("num_channels", 3);
  spec.hidden = reader.integer("hidden_size");
  spec.layers = reader.integer("num_hidden_layers");
  spec.heads = reader.integer("num_attention_heads");
  spec.intermediate = reader.integer("intermediate_size");
  spec.epsilon = reader.real("layer_norm_eps", 1e-12);
  spec.dropout = reader.real("hidden_dropout_prob", 0);
  spec.attention_dropout = reader.real("attention_probs_dropout_prob", 0);
  spec.labels = reader.labels();
  check_and_read_forms(spec, reader);
  spec.positions = spec.tokens();
  return spec;
}

}  // namespace comera::models
