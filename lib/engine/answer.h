// Checks that the outputs of a model are finite numbers.
#pragma once

#include "lib/engine/engine.h"

namespace comera::engine {

// Throws RunError if a loss, a logit or an embedding is not a finite number.
void check_answer(const Scores& scores);

}  // namespace comera::engine
