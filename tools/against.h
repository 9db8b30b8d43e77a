// `comera evaluate A --against B`: compares the answers of two models on the same text.
#pragma once

#include "lib/core/options/options.h"

namespace comera::tools {

std::vector<Option> against_options();
int evaluate_against(const OptionValues& values);

}  // namespace comera::tools
