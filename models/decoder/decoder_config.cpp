#include "models/decoder/decoder_config.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "lib/core/error.h"
#include "lib/core/terminal/log.h"

namespace comera::models {
namespace {

using io::Json;

// Families with the same blocks. They differ in biases and in the defaults of a few keys.
struct Family {
  const char *type, *architecture;
  DecoderFamily written;                      // the family of the files that are written
  std::int64_t key_heads, positions, window;  // defaults of missing keys; 0: as many as heads, or no window
};
constexpr Family families[] = {{"llama", "LlamaForCausalLM", DecoderFamily::llama, 0, 2048, 0},
                               {"mistral", "MistralForCausalLM", DecoderFamily::llama, 8, 131072, 4096},
                               {"qwen2", "Qwen2ForCausalLM", DecoderFamily::qwen2, 32, 32768, 4096}};
const Family& llama = families[0];

const Family& family_named(const std::string& type) {
  for (const Family& family : families)
    if (type == family.type) return family;
  return llama;
}

const Family& family_of(DecoderFamily written) {
  return *std::find_if(std::begin(families), std::end(families),
                       [&](const Family& family) { return family.written == written; });
}

std::vector<std::int64_t> read_ends(const ConfigReader& reader) {
  if (!reader.has("eos_token_id")) return {};
  const Json& value = reader.config()["eos_token_id"];
  std::vector<std::int64_t> ids;
  for (const Json& one : value.is_array() ? value : Json::array({value})) {
    if (!one.is_number_integer())
      fail_input("{}: eos_token_id is {}; it must be an id or a list of ids", reader.name(),
                 printable(value.dump().substr(0, 64)));
    ids.push_back(one.get<std::int64_t>());
  }
  return ids;
}

// A window that covers all positions has no effect.
void require_no_window(const ConfigReader& reader, const Family& family, std::int64_t positions) {
  if (family.written == DecoderFamily::qwen2 && !reader.flag("use_sliding_window", false)) return;
  const bool there = reader.config().contains("sliding_window");
  const std::int64_t window = reader.has("sliding_window") ? reader.integer("sliding_window")
                              : there                      ? 0
                                                           : family.window;
  if (family.window > 0 && window != 0 && window < positions)
    fail_input(
        "{}: sliding_window is {} at max_position_embeddings {}; attention to a window is not supported, only null or "
        "a window of all positions",
        reader.name(), window, positions);
}

void require_supported(const ConfigReader& reader, const Family& family) {
  if (const std::string found = reader.architecture(); found != family.architecture)
    fail_input("{}: architecture {} is not supported; of model_type {} only {} is", reader.name(), found, family.type,
               family.architecture);
  reader.require("hidden_act", "silu");
  if (const double part = reader.real("partial_rotary_factor", 1.0); part != 1)
    fail_input("{}: partial_rotary_factor is {}; only 1 is supported", reader.name(), part);
}

}  // namespace

bool is_decoder_type(const std::string& model_type) {
  return std::any_of(std::begin(families), std::end(families),
                     [&](const Family& family) { return model_type == family.type; });
}

std::string to_config_json(const DecoderSpec& spec, const layers::Model& model) {
  Json config = config_start(spec);
  config["architectures"] = Json::array({family_of(spec.family).architecture});
  config["model_type"] = family_of(spec.family).type;
  config.erase("sliding_window");
  config["vocab_size"] = spec.vocabulary;
  config["hidden_size"] = spec.hidden;
  config["num_hidden_layers"] = spec.layers;
  config["num_attention_heads"] = spec.heads;
  config["num_key_value_heads"] = spec.key_heads;
  config["head_dim"] = spec.head_size;
  config["intermediate_size"] = spec.intermediate;
  config["max_position_embeddings"] = spec.positions;
  config["hidden_act"] = "silu";
  config["rms_norm_eps"] = spec.epsilon;
  config["rope_theta"] = spec.theta;
  if (spec.family == DecoderFamily::llama) {
    config["attention_bias"] = spec.qkv_bias;
    config["mlp_bias"] = spec.mlp_bias;
  }
  config["attention_dropout"] = spec.attention_dropout;
  config["tie_word_embeddings"] = spec.tied;
  if (spec.begin >= 0) config["bos_token_id"] = spec.begin;
  if (!spec.end.empty()) config["eos_token_id"] = spec.end.size() == 1 ? Json(spec.end.front()) : Json(spec.end);
  config["torch_dtype"] = torch_dtype(model);
  write_forms(config, model);
  return io::json_text(config);
}

DecoderSpec parse_decoder_config(const ConfigReader& reader) {
  const Family& family = family_named(reader.text("model_type", ""));
  require_supported(reader, family);
  DecoderSpec spec;
  spec.source = reader.config().dump();
  spec.vocabulary = reader.integer("vocab_size");
  spec.hidden = reader.integer("hidden_size");
  spec.layers = reader.integer("num_hidden_layers");
  spec.heads = reader.integer("num_attention_heads");
  const bool said = reader.config().contains("num_key_value_heads");  // null: as many as heads
  spec.key_heads = reader.integer("num_key_value_heads", said || family.key_heads == 0 ? spec.heads : family.key_heads);
  spec.intermediate = reader.integer("intermediate_size");
  spec.positions = reader.integer("max_position_embeddings", family.positions);
  require_no_window(reader, family, spec.positions);
  spec.epsilon = reader.real("rms_norm_eps", 1e-6);
  spec.attention_dropout = reader.real("attention_dropout", 0.0);
  spec.tied = reader.flag("tie_word_embeddings", false);
  const Rope rope = read_rope(reader, spec.positions);
  spec.theta = rope.theta;
  spec.scaling = rope.scaling;
  spec.family = family.written;
  // Llama's flag is for all four layers of attention. Qwen2 has it at three of them and no flag; Mistral has none.
  const bool of_llama = std::string(family.type) == llama.type;
  spec.output_bias = of_llama && reader.flag("attention_bias", false);
  spec.qkv_bias = spec.output_bias || family.written == DecoderFamily::qwen2;
  spec.mlp_bias = of_llama && reader.flag("mlp_bias", false);
  spec.begin = reader.integer("bos_token_id", -1);
  spec.end = read_ends(reader);
  if (!reader.has("head_dim") && spec.heads > 0 && spec.hidden % spec.heads != 0)
    fail_input("{}: hidden_size {} is not a multiple of num_attention_heads {}, and there is no head_dim",
               reader.name(), spec.hidden, spec.heads);
  spec.head_size = reader.integer("head_dim", spec.heads > 0 ? spec.hidden / spec.heads : 0);
  check_and_read_forms(spec, reader);
  return spec;
}

}  // namespace comera::models
