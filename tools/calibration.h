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
// temporary files. `certified`: measures the text as this record of a certificate says, in its number of tokens unless
// --calibrate-tokens is given; null: by the options.
std::unique_ptr<compress::InputMoments> open_calibration(const OptionValues& values, const plan::Machine& machine,
                                                         const std::string& model, const std::string& scratch,
                                                         const compress::MomentsInfo* certified = nullptr);

// Text on which the cost of compression is measured: the held-out part of the calibration text, or the built-in text.
compress::ComparisonText comparison_text(const OptionValues& values);

}  // namespace comera::tools
