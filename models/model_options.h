// The options that select a model, and the spec that results from them and from the data.
#pragma once

#include <optional>

#include "lib/core/options/options.h"
#include "lib/data/clicks/feature_map.h"
#include "models/presets.h"

namespace comera::models {

// --model, --form, --rank, --embedding-form, --embedding-rank, --order, --modes, --layer, sizes and dropout.
std::vector<Option> model_options();

// Facts from tokenizer and data. Without them (--dry-run) the preset's vocabulary and labels are used.
struct DataFacts {
  Task task = Task::classify;
  std::optional<std::int64_t> vocabulary, pad, begin, end;
  std::vector<std::string> labels;
  std::int64_t max_length = 0;                       // 0: unknown
  std::shared_ptr<const data::FeatureMap> features;  // ctr
};

// The rank of tables in TTM or low-rank form. `spec` has the sizes of the model.
std::int64_t embedding_rank(const OptionValues& values, const Preset& preset, const Spec& spec);
// The preset of --model with the sizes that the options give it; not checked.
ModelSpec sized_spec(const OptionValues& values);
// InputError if options contradict each other or the model's sizes.
ModelSpec spec_from_options(const OptionValues& values, const DataFacts& facts);

}  // namespace comera::models
