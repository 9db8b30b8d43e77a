// What `predict` does with a decoder: every line of stdin goes on.
#pragma once

#include "tools/stored_model.h"

namespace comera::tools {

std::vector<Option> generation_options();  // --max-tokens, --temperature, --top-p, --seed
int generate_lines(const OptionValues& values, StoredModel& stored);

}  // namespace comera::tools
