// `predict` with a decoder: generates a continuation of every line of stdin.
#pragma once

#include "tools/stored_model.h"

namespace comera::tools {

std::vector<Option> generation_options();  // --max-tokens, --temperature, --top-p, --seed
int generate_lines(const OptionValues& values, StoredModel& stored);

}  // namespace comera::tools
