// `comera evaluate --task choice`: multiple-choice questions for decoders.
#pragma once

#include "lib/core/options/options.h"
#include "tools/stored_model.h"

namespace comera::tools {

int evaluate_choices(const OptionValues& values, StoredModel& stored);

}  // namespace comera::tools
