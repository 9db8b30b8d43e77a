// Several finished runs side by side, from the report.json and metrics.jsonl that each left in its folder.
#pragma once

#include <span>
#include <string>

#include "lib/report/table.h"

namespace comera::report {

// One row per run. Milliseconds per step are those of the end of the run, when the ranks have fallen; the ratio of
// times is to the first run. InputError naming the folder that holds no finished run.
Table runs_table(std::span<const std::string> folders);

}  // namespace comera::report
