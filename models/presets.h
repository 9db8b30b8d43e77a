// Presets: named models with default sizes.
#pragma once

#include <string>
#include <vector>

#include "models/architecture.h"

namespace comera::models {

struct Preset {
  std::string name, summary;
  ModelSpec spec;  // encoders: vocabulary 30,522 (BERT's) and the labels of MNLI unless the data gives others; dlrm:
                   // Criteo's columns
  std::int64_t rank = 0, embedding_rank = 0;
  std::int64_t least_rows = 0, least_entries = 0;  // FormRules
  std::vector<std::string> layers = {};  // exceptions, as --layer has them, without their ranks if --rank is given
  bool pair_tables = false;  // in a model that is not dense, tables are pairs with a quarter of its width as rank
};

const std::vector<Preset>& presets();
bool is_preset(const std::string& name);
// InputError that lists the existing names.
const Preset& find_preset(const std::string& name);

}  // namespace comera::models
