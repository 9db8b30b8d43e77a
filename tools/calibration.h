// Options for calibration text, and the input moments that the text gives.
#pragma once

#include <memory>

#include "lib/compress/calibration/calibration.h"
#include "lib/compress/check/comparison.h"
#include "lib/core/options/options.h"

namespace comera::tools {

std::vector<Option>
calibration_options();  // --calibrate, --calibrate-tokens, --calibrate-length, --text, --data-format, --tokenizer

// Returns null without --calibrate. `scratch`: folder for data that is too large for memory; "" selects the folder of
// temporary files. `tokens`: limit of tokens to read if --calibrate-tokens is not given; 0: read until enough sequences
// are fitted.
std::unique_ptr<compress::InputMoments> open_calibration(const OptionValues& values, const plan::Machine& machine,
                                                         const std::string& model, const std::string& scratch,
                                                         std::int64_t tokens = 0);

// Text on which the cost of compression is measured: the held-out part of the calibration text, or the built-in text.
compress::ComparisonText comparison_text(const OptionValues& values);

}  // namespace comera::tools
