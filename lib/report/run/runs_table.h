// Compares finished runs in a table, from report.json and metrics.jsonl in their folders.
#pragma once

#include <span>
#include <string>

#include "lib/report/output/table.h"

namespace comera::report {

// One row per run. Milliseconds per step are those of the end of the run, with the final ranks. The ratio of times is
// relative to the first run. Throws InputError with the name of a folder without a finished run.
Table runs_table(std::span<const std::string> folders);

}  // namespace comera::report
