#include "models/encoder/modernbert_config.h"

#include "lib/core/error.h"
#include "lib/core/terminal/log.h"

namespace comera::models {
namespace {

using io::Json;

constexpr const char *full = "full_attention", *sliding = "sliding_attention";  // entries of layer_types
constexpr const char *period = "global_attn_every_n_layers", *types = "layer_types", *angles = "rope_parameters";
constexpr std::int64_t usual_period = 3;

// Layers 0, n, 2n, ... attend to all keys.
std::vector<bool> periodic(std::int64_t layers, std::int64_t n) {
  std::vector<bool> windowed(static_cast<std::size_t>(layers));
  for (std::int64_t i = 0; i < layers; ++i) windowed[static_cast<std::size_t>(i)] = i % n != 0;
  return windowed;
}

std::vector<bool> read_windowed(const ConfigReader& reader, std::int64_t layers) {
  check_size("num_hidden_layers", layers, 1 << 12);
  if (!reader.has(types)) {
    const std::int64_t n = reader.integer(period, usual_period);
    if (n < 1) fail_input("{}: {} is {}; it must be at least 1", reader.name(), period, n);
    return periodic(layers, n);
  }
  const Json& list = reader.config()[types];
  if (!list.is_array() || std::ssize(list) != layers)
    fail_input("{}: {} must be a list of the types of {} layers", reader.name(), types, layers);
  std::vector<bool> windowed;
  for (const Json& type : list) {
    if (type != full && type != sliding)
      fail_input("{}: {}[{}] is {}; \"{}\" and \"{}\" are supported", reader.name(), types, windowed.size(),
                 printable(type.dump().substr(0, 64)), full, sliding);
    windowed.push_back(type == sliding);
  }
  return windowed;
}

// Keys stay where they are in the file.
void write_windowed(const std::vector<bool>& windowed, Json& config) {
  const auto layers = static_cast<std::int64_t>(windowed.size());
  std::int64_t n = 1;
  while (n <= layers && windowed != periodic(layers, n)) ++n;
  const bool regular = n <= layers;
  config.erase(regular ? types : period);
  if (regular) {
    config[period] = n;
    return;
  }
  config[types] = Json::array();
  for (const bool one : windowed) config[types].push_back(one ? sliding : full);
}

// Older files have a key per theta, newer ones an object per type of layer.
double read_theta(const ConfigReader& reader, const char* key, const char* type, double usual) {
  if (reader.config().contains(key) && !reader.has(key))
    fail_input("{}: {} is null; it must be a number", reader.name(), key);
  const double theta = reader.real(key, usual);
  if (!reader.has(angles)) return theta;
  const Json& all = reader.config()[angles];
  if (!all.is_object())
    fail_input("{}: {} is {}; it must be an object or null", reader.name(), angles,
               printable(all.dump().substr(0, 64)));
  const auto found = all.find(type);
  if (found == all.end() || found->is_null()) return theta;
  if (!found->is_object())
    fail_input("{}: {}.{} is {}; it must be an object or null", reader.name(), angles, type,
               printable(found->dump().substr(0, 64)));
  const std::string name = fmt::format("{}: {}.{}", reader.name(), angles, type);
  const ConfigReader inner(*found, name);
  inner.require("rope_type", "default");
  if (const double part = inner.real("partial_rotary_factor", 1.0); part != 1)
    fail_input("{}: partial_rotary_factor is {}; only 1 is supported", name, part);
  return inner.real("rope_theta", theta);
}

void require_supported(const ConfigReader& reader, const EncoderSpec& spec) {
  reader.require_null("rope_scaling");
  if (const double dropout = reader.real("mlp_dropout", 0.0); dropout != 0)
    fail_input("{}: mlp_dropout is {}; only 0 is supported", reader.name(), dropout);
  if (spec.task == Task::embed) return;
  reader.require("classifier_activation", "gelu");
  if (data::learns_labels(spec.task)) return;
  if (!reader.flag("decoder_bias", true))
    fail_input("{}: decoder_bias is false; only true is supported", reader.name());
}

kernels::Pooling read_classifier_pooling(const ConfigReader& reader) {
  const std::string name = reader.text("classifier_pooling", "cls");
  if (name == "mean") return kernels::Pooling::mean;
  if (name != "cls")
    fail_input("{}: classifier_pooling is '{}'; 'cls' and 'mean' are supported", reader.name(), printable(name));
  return kernels::Pooling::first;
}

}  // namespace

void write_modernbert_config(const EncoderSpec& spec, Json& config) {
  const ModernBert& modern = spec.modern;
  write_windowed(modern.windowed, config);
  config.erase(angles);  // in the keys of older files, which every reader knows
  config["local_attention"] = 2 * modern.reach;
  config["global_rope_theta"] = modern.theta;
  config["local_rope_theta"] = modern.near_theta;
  config["attention_bias"] = modern.attention_bias;
  config["mlp_bias"] = modern.mlp_bias;
  config["norm_bias"] = modern.norm_bias;
  config["classifier_bias"] = modern.head_bias;
  config["mlp_dropout"] = 0.0;
  config["decoder_bias"] = true;
  if (data::learns_labels(spec.task))
    config["classifier_pooling"] = spec.classifier_pooling == kernels::Pooling::mean ? "mean" : "cls";
}

void read_modernbert_config(const ConfigReader& reader, EncoderSpec& spec) {
  require_supported(reader, spec);
  ModernBert& modern = spec.modern;
  spec.pre_norm = true;
  if (data::learns_labels(spec.task)) spec.classifier_pooling = read_classifier_pooling(reader);
  modern.windowed = read_windowed(reader, spec.layers);
  modern.reach = reader.integer("local_attention", 128) / 2;
  modern.theta = read_theta(reader, "global_rope_theta", full, modern.theta);
  modern.near_theta = read_theta(reader, "local_rope_theta", sliding, modern.near_theta);
  modern.attention_bias = reader.flag("attention_bias", false);
  modern.mlp_bias = reader.flag("mlp_bias", false);
  modern.norm_bias = reader.flag("norm_bias", false);
  modern.head_bias = reader.flag("classifier_bias", false);
}

}  // namespace comera::models
