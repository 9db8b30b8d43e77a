// The answers of a model must be finite numbers.
#pragma once

#include "lib/train/step.h"

namespace comera::train {

// RunError where a loss, a logit or an embedding is no finite number.
void check_answer(const Scores& scores);

}  // namespace comera::train
