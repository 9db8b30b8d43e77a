// The settings of `comera tensorize` from its options.
#pragma once

#include "lib/compress/settings.h"
#include "lib/core/options/options.h"

namespace comera::tools {

// InputError for options that contradict each other. Sizes, model and output are those of the command line.
compress::Settings compression_settings(const OptionValues& values);

}  // namespace comera::tools
