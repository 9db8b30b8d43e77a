// Which ranks several runs left in each layer, as a picture.
#pragma once

#include <span>

#include "lib/report/output/heat_map.h"
#include "lib/report/run/runs_table.h"

namespace comera::report {

// A row for each weight that has inner ranks in one of the runs, in the order of their names, and a column for each run
// that has such weights: the mean of the inner ranks. A cell is empty where the run has no such weight or keeps it
// dense.
HeatMap rank_map(std::span<const FinishedRun> runs);

}  // namespace comera::report
