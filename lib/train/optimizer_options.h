// The options of the update that are numbers, and checks of them. Those of methods are in memory_options.h.
#pragma once

#include <vector>

#include "lib/core/options/options.h"
#include "lib/train/optimizer.h"

namespace comera::train {

// Betas, decays and the objective's weights. InputError for values that would divide by zero.
OptimizerOptions optimizer_options(const OptionValues& values);
// InputError for --core-rates structured of the command line with methods whose steps depend on the size of the
// gradient: the factors are for AdamW's.
void check_core_rates(const OptionValues& values, const std::vector<MethodRule>& rules);
// Warns of the default rates, which are AdamW's, with another method.
void warn_of_rates(const OptionValues& values, const std::vector<MethodRule>& rules);

}  // namespace comera::train
