// Compares finished runs in a table, from report.json and metrics.jsonl in their folders.
#pragma once

#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "lib/report/output/json.h"
#include "lib/report/output/table.h"

namespace comera::report {

struct FinishedRun {
  std::string folder;
  Json report;           // report.json
  double step_ms = NAN;  // of the end of the run, with the final ranks
};

// Throws InputError with the name of a folder without a finished run.
std::vector<FinishedRun> read_runs(std::span<const std::string> folders);

// One row per run. The ratio of times is relative to the first run.
Table runs_table(std::span<const FinishedRun> runs);

}  // namespace comera::report
