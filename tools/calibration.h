// The options that name calibration text, and the moments that it gives.
#pragma once

#include <memory>

#include "lib/compress/calibration.h"
#include "lib/compress/comparison.h"
#include "lib/core/options.h"

namespace comera::tools {

std::vector<Option>
calibration_options();  // --calibrate, --calibrate-tokens, --calibrate-length, --text, --data-format, --tokenizer

// Null without --calibrate. `scratch`: folder for what memory should not hold, "": that of temporary files. `tokens`:
// to read at most where
// --calibrate-tokens is not given; 0: until enough are fitted.
std::unique_ptr<compress::InputMoments> open_calibration(const OptionValues& values, const plan::Machine& machine,
                                                         const std::string& model, const std::string& scratch,
                                                         std::int64_t tokens = 0);

// The text that tells what compression cost: the part of calibration's that judges, or what is built in.
compress::ComparisonText comparison_text(const OptionValues& values);

}  // namespace comera::tools
