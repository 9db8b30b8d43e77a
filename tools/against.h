// `comera evaluate A --against B`: how far one model's answers are from another's.
#pragma once

#include "lib/core/options.h"

namespace comera::tools {

std::vector<Option> against_options();
int evaluate_against(const OptionValues& values);

}  // namespace comera::tools
