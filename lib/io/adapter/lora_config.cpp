#include "lib/io/adapter/lora_config.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "lib/core/error.h"
#include "lib/core/terminal/log.h"
#include "lib/io/json.h"

namespace comera::io {
namespace {

constexpr std::int64_t most_rank = 1 << 20;

// Keys that say how the adapter was started or trained, or where it lies.
constexpr std::string_view without_effect[] = {"alora_invocation_tokens",
                                               "arrow_config",
                                               "auto_mapping",
                                               "base_model_name_or_path",
                                               "corda_config",
                                               "ensure_weight_tying",
                                               "eva_config",
                                               "exclude_modules",
                                               "fan_in_fan_out",
                                               "inference_mode",
                                               "layers_pattern",
                                               "layers_to_transform",
                                               "loftq_config",
                                               "lora_dropout",
                                               "lora_ga_config",
                                               "megatron_config",
                                               "megatron_core",
                                               "peft_version",
                                               "qalora_group_size",
                                               "revision",
                                               "runtime_config",
                                               "target_modules",
                                               "task_type",
                                               "velora_config"};

bool is_off(const Json& value) {
  return value.is_null() || value == false || ((value.is_array() || value.is_object()) && value.empty());
}

// True if PEFT leaves the base model as it is when it starts so.
bool keeps_base(const Json& value) {
  return value.is_boolean() || value == "gaussian" || value == "eva" || value == "orthogonal";
}

class Reader {
 public:
  Reader(const Json& config, const std::string& name) : config_(config), name_(name) {}

  LoraConfig read() const {
    if (!config_.is_object()) fail_input("{}: is not a JSON object", name_);
    if (const auto type = config_.find("peft_type"); type == config_.end() || *type != "LORA")
      fail_input("{}: peft_type is {}; LORA is read", name_, shown("peft_type"));
    for (const auto& [key, value] : config_.items()) check(key, value);
    LoraConfig config;
    config.rank = whole("r", config_.value("r", Json(8)));
    config.alpha = real("lora_alpha", config_.value("lora_alpha", Json(8)));
    config.root_scaled = config_.value("use_rslora", Json(false)) == true;
    const Json ranks = pattern("rank_pattern"), alphas = pattern("alpha_pattern");
    for (const auto& [key, value] : ranks.items()) config.ranks.emplace_back(plain(key), whole(key, value));
    for (const auto& [key, value] : alphas.items()) config.alphas.emplace_back(plain(key), real(key, value));
    return config;
  }

 private:
  std::string shown(const std::string& key) const {
    const auto found = config_.find(key);
    return found == config_.end() ? "missing" : printable(found->dump().substr(0, 64));
  }

  void check(const std::string& key, const Json& value) const {
    constexpr std::string_view read[] = {"peft_type", "r", "lora_alpha", "rank_pattern", "alpha_pattern"};
    const bool known = std::find(std::begin(read), std::end(read), key) != std::end(read);
    if (known || is_off(value)) return;
    if (key == "use_rslora" && value.is_boolean()) return;
    if (key == "bias" && value == "none") return;
    if (key == "init_lora_weights" && keeps_base(value)) return;
    if (std::find(std::begin(without_effect), std::end(without_effect), key) != std::end(without_effect)) {
      if (key != "alora_invocation_tokens" && key != "megatron_config") return;
    }
    fail_input("{}: {} is {}, which changes the answers or is not known; merge the adapter with PEFT instead", name_,
               printable(key.substr(0, 64)), shown(key));
  }

  Json pattern(const char* key) const {
    const auto found = config_.find(key);
    if (found == config_.end() || found->is_null()) return Json::object();
    if (!found->is_object()) fail_input("{}: {} is no object of modules and numbers", name_, key);
    return *found;
  }

  // Keys are regular expressions; here they must be names.
  std::string plain(const std::string& key) const {
    const auto is_plain = [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '.' || c == '-'; };
    if (key.empty() || !std::all_of(key.begin(), key.end(), is_plain))
      fail_input("{}: the pattern '{}' is no name of a module; write one entry per module", name_,
                 printable(key.substr(0, 64)));
    return key;
  }

  std::int64_t whole(const std::string& key, const Json& value) const {
    if (!value.is_number_integer() || value < 1 || value > most_rank)
      fail_input("{}: the rank of '{}' must be a whole number from 1 to {}", name_, printable(key.substr(0, 64)),
                 most_rank);
    return value.get<std::int64_t>();
  }
  double real(const std::string& key, const Json& value) const {
    if (!value.is_number() || !std::isfinite(value.get<double>()))
      fail_input("{}: the alpha of '{}' must be a number", name_, printable(key.substr(0, 64)));
    return value.get<double>();
  }

  const Json& config_;
  const std::string& name_;
};

template <class T>
T found_in(const std::vector<std::pair<std::string, T>>& patterns, std::string_view module, T otherwise) {
  for (const auto& [key, value] : patterns)
    if (module == key || module.ends_with("." + key)) return value;
  return otherwise;
}

}  // namespace

std::int64_t LoraConfig::rank_of(std::string_view module) const { return found_in(ranks, module, rank); }

double LoraConfig::scale_of(std::string_view module) const {
  const auto rank = static_cast<double>(rank_of(module));
  return found_in(alphas, module, alpha) / (root_scaled ? std::sqrt(rank) : rank);
}

LoraConfig parse_lora_config(std::string_view text, const std::string& name) {
  const Json json = parse_json(text, name, 16);
  return Reader(json, name).read();
}

std::string lora_config_text(const std::map<std::string, std::int64_t>& ranks, const std::string& base) {
  Json patterns = Json::object(), alphas = Json::object(), targets = Json::array();
  std::int64_t largest = 1;
  for (const auto& [module, rank] : ranks) largest = std::max(largest, rank);
  for (const auto& [module, rank] : ranks) {
    targets.push_back(module);
    if (rank == largest) continue;
    patterns[module] = rank;
    alphas[module] = rank;
  }
  return json_text({{"peft_type", "LORA"},
                    {"base_model_name_or_path", base},
                    {"task_type", nullptr},
                    {"inference_mode", true},
                    {"r", largest},
                    {"lora_alpha", largest},
                    {"lora_dropout", 0.0},
                    {"bias", "none"},
                    {"fan_in_fan_out", false},
                    {"use_rslora", false},
                    {"use_dora", false},
                    {"init_lora_weights", true},
                    {"modules_to_save", nullptr},
                    {"target_modules", targets},
                    {"rank_pattern", patterns},
                    {"alpha_pattern", alphas}});
}

}  // namespace comera::io
