// The options that say which model to build, and the spec that they make together with what the data knows.
#pragma once

#include <optional>

#include "lib/core/options.h"
#include "models/architecture.h"

namespace comera::models {

// --model, --form, --rank, --embedding-rank, --order, --modes, --layer, sizes and dropout.
std::vector<Option> model_options();

// Facts from tokenizer and data; without them (--dry-run) the preset's own vocabulary and labels stand.
struct DataFacts {
  Task task = Task::classify;
  std::optional<std::int64_t> vocabulary, pad, begin, end;
  std::vector<std::string> labels;
  std::int64_t max_length = 0;  // 0: not known
};

// InputError where options contradict each other or the model's sizes.
ModelSpec spec_from_options(const OptionValues& values, const DataFacts& facts);

}  // namespace comera::models
