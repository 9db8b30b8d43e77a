// Finished runs on a page: the table, charts of quality against bytes, memory and time, and the ranks of the weights.
#pragma once

#include <string>

#include "lib/report/output/heat_map.h"
#include "lib/report/output/table.h"

namespace comera::report {

// `table` is that of runs_table(), `ranks` is rank_map() of the same runs. A chart for each measure of quality that at
// least two runs have, against the bytes of the model, the peak of memory and the time of a step. A line joins the runs
// that no other run beats in both (the Pareto front).
std::string runs_page(const Table& table, HeatMap ranks);

}  // namespace comera::report
