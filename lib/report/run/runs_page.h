// Finished runs on a page: the table, and charts of quality against memory and time.
#pragma once

#include <string>

#include "lib/report/output/table.h"

namespace comera::report {

// `table` is that of runs_table(). A chart for each measure of quality that at least two runs have, against the peak of
// memory and against the time of a step. A line joins the runs that no other run beats in both (the Pareto front).
std::string runs_page(const Table& table);

}  // namespace comera::report
