#include "models/decoder/decoder_config.h"

#include <algorithm>
#include <iterator>

#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "lib/core/terminal/log.h"
#include "lib/io/json_file.h"
#include "lib/io/modules.h"
#include "models/decoder/gpt2_config.h"

namespace comera::models {
namespace {

using io::Json;

// Families with the same blocks. They differ in biases, norms of heads and in the defaults of a few keys.
struct Family {
  const char *type, *architecture;
  DecoderFamily family;
  std::int64_t key_heads, head_size, positions, window;  // defaults of missing keys; 0: of the number of heads, or none
  bool may_have_biases;                                  // the key attention_bias
};
constexpr Family families[] = {{"llama", "LlamaForCausalLM", DecoderFamily::llama, 0, 0, 2048, 0, true},
                               {"mistral", "MistralForCausalLM", DecoderFamily::mistral, 8, 0, 131072, 4096, false},
                               {"qwen2", "Qwen2ForCausalLM", DecoderFamily::qwen2, 32, 0, 32768, 4096, false},
                               {"qwen3", "Qwen3ForCausalLM", DecoderFamily::qwen3, 32, 128, 32768, 4096, true}};
const Family& llama = families[0];

const Family& family_named(const std::string& type) {
  for (const Family& family : families)
    if (type == family.type) return family;
  return llama;
}

const Family& family_of(DecoderFamily wanted) {
  return *std::find_if(std::begin(families), std::end(families),
                       [&](const Family& family) { return family.family == wanted; });
}

// Qwen's files switch their window on, and give layers their types by a number if not by a list.
bool is_qwen(DecoderFamily family) { return family == DecoderFamily::qwen2 || family == DecoderFamily::qwen3; }

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

constexpr const char *full = "full_attention", *sliding = "sliding_attention";  // entries of layer_types

std::vector<bool> read_layer_types(const ConfigReader& reader, std::int64_t layers) {
  std::vector<bool> windowed(static_cast<std::size_t>(layers));
  if (!reader.has("layer_types")) {
    const std::int64_t first = reader.integer("max_window_layers", 28);
    for (std::int64_t i = std::max<std::int64_t>(first, 0); i < layers; ++i)
      windowed[static_cast<std::size_t>(i)] = true;
    return windowed;
  }
  const Json& types = reader.config()["layer_types"];
  if (!types.is_array() || std::ssize(types) != layers)
    fail_input("{}: layer_types must be a list of the types of {} layers", reader.name(), layers);
  for (std::size_t i = 0; i < windowed.size(); ++i) {
    if (types[i] != full && types[i] != sliding)
      fail_input("{}: layer_types[{}] is {}; \"{}\" and \"{}\" are supported", reader.name(), i,
                 printable(types[i].dump().substr(0, 64)), full, sliding);
    windowed[i] = types[i] == sliding;
  }
  return windowed;
}

// A window that covers all positions has no effect. `spec` has layers and positions.
void read_window(const ConfigReader& reader, const Family& family, DecoderSpec& spec) {
  if (family.window == 0) return;
  if (is_qwen(family.family) && !reader.flag("use_sliding_window", false)) return;
  const bool null = reader.config().contains("sliding_window") && !reader.has("sliding_window");
  if (null) return;
  const std::int64_t window = reader.integer("sliding_window", family.window);
  if (window < 1) fail_input("{}: sliding_window is {}; it must be at least 1, or null", reader.name(), window);
  if (window >= spec.positions) return;
  check_size("num_hidden_layers", spec.layers, 1 << 12);
  // transformers takes a Mistral file with layer_types for one of Ministral; all other layers of Mistral's have the
  // window.
  const bool typed = is_qwen(family.family) || reader.has("layer_types");
  const auto all = static_cast<std::size_t>(spec.layers);
  spec.windowed = typed ? read_layer_types(reader, spec.layers) : std::vector<bool>(all, true);
  spec.window = window;
  if (std::find(spec.windowed.begin(), spec.windowed.end(), true) == spec.windowed.end())
    spec.window = 0, spec.windowed.clear();
}

void write_window(const DecoderSpec& spec, Json& config) {
  for (const char* key : {"sliding_window", "use_sliding_window", "max_window_layers", "layer_types"})
    config.erase(key);
  if (spec.window == 0) return;
  config["sliding_window"] = spec.window;
  const bool everywhere = std::find(spec.windowed.begin(), spec.windowed.end(), false) == spec.windowed.end();
  if (!is_qwen(spec.family) && everywhere) return;
  if (is_qwen(spec.family)) config["use_sliding_window"] = true;
  for (const bool windowed : spec.windowed) config["layer_types"].push_back(windowed ? sliding : full);
}

void require_supported(const ConfigReader& reader, const Family& family) {
  if (const std::string found = reader.architecture(); found != family.architecture)
    fail_input("{}: architecture {} is not supported; of model_type {} only {} is", reader.name(), found, family.type,
               family.architecture);
  reader.require("hidden_act", "silu");
  if (const double part = reader.real("partial_rotary_factor", 1.0); part != 1)
    fail_input("{}: partial_rotary_factor is {}; only 1 is supported", reader.name(), part);
}

void write_llama_config(const DecoderSpec& spec, Json& config) {
  config["architectures"] = Json::array({family_of(spec.family).architecture});
  config["model_type"] = family_of(spec.family).type;
  write_window(spec, config);
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
  if (family_of(spec.family).may_have_biases) config["attention_bias"] = spec.qkv_bias;
  if (spec.family == DecoderFamily::llama) config["mlp_bias"] = spec.mlp_bias;
  config["attention_dropout"] = spec.attention_dropout;
}

DecoderSpec parse_llama_config(const ConfigReader& reader, const Family& family) {
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
  read_window(reader, family, spec);
  spec.epsilon = reader.real("rms_norm_eps", 1e-6);
  spec.attention_dropout = reader.real("attention_dropout", 0.0);
  spec.tied = reader.flag("tie_word_embeddings", false);
  const Rope rope = read_rope(reader, spec.positions);
  spec.theta = rope.theta;
  spec.scaling = rope.scaling;
  // Without a window, Mistral's arithmetic is Llama's.
  spec.family = family.family == DecoderFamily::mistral && spec.window == 0 ? DecoderFamily::llama : family.family;
  // The flag is for all four layers of attention. Qwen2 has biases at three of them and no flag; Mistral has none.
  spec.output_bias = family.may_have_biases && reader.flag("attention_bias", false);
  spec.qkv_bias = spec.output_bias || family.family == DecoderFamily::qwen2;
  spec.mlp_bias = family.family == DecoderFamily::llama && reader.flag("mlp_bias", false);
  spec.head_norms = family.family == DecoderFamily::qwen3;
  spec.begin = reader.integer("bos_token_id", -1);
  const bool given = reader.has("head_dim") || family.head_size > 0;
  if (!given && spec.heads > 0 && spec.hidden % spec.heads != 0)
    fail_input("{}: hidden_size {} is not a multiple of num_attention_heads {}, and there is no head_dim",
               reader.name(), spec.hidden, spec.heads);
  spec.head_size = reader.integer("head_dim", family.head_size > 0 ? family.head_size
                                              : spec.heads > 0     ? spec.hidden / spec.heads
                                                                   : 0);
  return spec;
}

}  // namespace

bool is_decoder_type(const std::string& model_type) {
  return model_type == gpt2_type || std::any_of(std::begin(families), std::end(families),
                                                [&](const Family& family) { return model_type == family.type; });
}

std::string to_config_json(const DecoderSpec& spec, const layers::Model& model) {
  Json config = config_start(spec);
  if (spec.family == DecoderFamily::gpt2)
    write_gpt2_config(spec, config);
  else
    write_llama_config(spec, config);
  config["tie_word_embeddings"] = spec.tied;
  if (spec.begin >= 0) config["bos_token_id"] = spec.begin;
  if (!spec.end.empty()) config["eos_token_id"] = spec.end.size() == 1 ? Json(spec.end.front()) : Json(spec.end);
  config["torch_dtype"] = torch_dtype(model);
  write_forms(config, model);
  return io::json_text(config);
}

std::vector<std::int64_t> generation_ends(const std::string& folder, const DecoderSpec& spec) {
  const std::string path = join_path(join_path(folder, io::transformer_place(folder)), "generation_config.json");
  if (!path_exists(path)) return spec.end;
  const Json config = io::read_json(path, io::largest_config);
  if (!config.is_object()) fail_input("{}: is not a JSON object", path);
  return read_ends(ConfigReader(config, path));
}

DecoderSpec parse_decoder_config(const ConfigReader& reader, const StoredNames& names) {
  const std::string type = reader.text("model_type", "");
  DecoderSpec spec = type == gpt2_type ? parse_gpt2_config(reader, names.without_transformer)
                                       : parse_llama_config(reader, family_named(type));
  spec.end = read_ends(reader);
  check_and_read_forms(spec, reader);
  return spec;
}

}  // namespace comera::models
