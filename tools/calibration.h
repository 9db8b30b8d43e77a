// The options that name calibration text, and the moments that it gives.
#pragma once

#include <memory>

#include "lib/compress/calibration.h"
#include "lib/core/options.h"

namespace comera::tools {

std::vector<Option> calibration_options();  // --calibrate, --calibrate-tokens, --calibrate-length, --tokenizer

// Null without --calibrate.
std::unique_ptr<compress::InputMoments> open_calibration(const OptionValues& values, const plan::Machine& machine, const std::string& model);

}  // namespace comera::tools
