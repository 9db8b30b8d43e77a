// Predicted times of steps under other settings, for the tables of --fit and --explain.
#pragma once

#include <span>

#include "tools/run_setup.h"

namespace comera::tools {

// Sets the ms of the rows that this machine can compute. Each policy is measured with a few sequences, whose time is
// taken times the number of such micro-batches in a step; the plan of the measurement stays below `most` bytes. Where a
// sequence takes more than a second or so, its first tokens are measured, and their time is multiplied by the ratio of
// the operations. Rows of runs with a teacher, and of models whose first sixteen tokens take that long, have no time.
void predict_times(std::span<train::PlannedChoice> rows, const OptionValues& values, const RunSetup& setup,
                   std::size_t most);

}  // namespace comera::tools
