// adapter_config.json of PEFT: the settings of low-rank adapters.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace comera::io {

// W + scale B A, with A [R, in] and B [out, R], for every module that the adapter names.
struct LoraConfig {
  std::int64_t rank = 8;
  double alpha = 8;
  bool root_scaled = false;  // the scale is alpha / sqrt(R), else alpha / R
  // Ranks and alphas that differ from the above. A module has the first one whose key is its name or the end of it
  // behind a ".".
  std::vector<std::pair<std::string, std::int64_t>> ranks = {};
  std::vector<std::pair<std::string, double>> alphas = {};

  std::int64_t rank_of(std::string_view module) const;
  double scale_of(std::string_view module) const;
};

// InputError that names the key: another kind of adapter, a value that changes the arithmetic and is not read, an
// unknown key that is set, or a number out of range. `name` is the path, for messages.
LoraConfig parse_lora_config(std::string_view text, const std::string& name);

// The text of a file for modules of these ranks and a scale of 1. `base`: path or name of the model.
std::string lora_config_text(const std::map<std::string, std::int64_t>& ranks, const std::string& base);

}  // namespace comera::io
