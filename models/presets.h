// Named models to start from.
#pragma once

#include <string>
#include <vector>

#include "models/architecture.h"

namespace comera::models {

struct Preset {
  std::string name, summary;
  ModelSpec spec;  // encoders: vocabulary 30,522 (BERT's) and the labels of MNLI where data says nothing else
  std::int64_t rank = 0, embedding_rank = 0;
};

const std::vector<Preset>& presets();
// InputError with the names that exist.
const Preset& find_preset(const std::string& name);

}  // namespace comera::models
