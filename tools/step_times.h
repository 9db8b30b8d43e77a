// Predicted times of steps under other settings, for the tables of --fit and --explain.
#pragma once

#include <span>

#include "tools/run_setup.h"

namespace comera::tools {

// Sets the ms of the rows that this machine can compute. Each policy is measured with a few sequences, whose time is
// taken times the number of such micro-batches in a step; the plan of the measurement stays below `most` bytes. Rows of
// runs with a teacher, and of models whose sequence takes more than a second or so, have no time.
void predict_times(std::span<train::PlannedChoice> rows, const OptionValues& values, const RunSetup& setup,
                   std::size_t most);

}  // namespace comera::tools
