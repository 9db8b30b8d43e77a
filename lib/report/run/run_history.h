// Reads the history of a run for curves: metrics.jsonl, one object per line.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/report/output/json.h"
#include "lib/report/output/svg.h"

namespace comera::report {

constexpr std::int64_t most_reports = 4096;  // of a history; a longer run's are evenly thinned out

struct RunHistory {
  std::vector<Json> lines;

  // A number over the steps, by key or by a path of keys ("dev.loss"). Lines without it are skipped.
  Series curve(const std::string& name, std::string_view path) const;
  // The last line with the key; null if there is none.
  const Json* last_with(std::string_view path) const;
  // The median over the last quarter of the lines with the key. A single report is noisy, and earlier ones belong to
  // other ranks. NaN if there is none.
  double closing(std::string_view path) const;
};

// Reads the history of a run folder, or of a checkpoint inside one (up to its own step). Returns nullopt without
// metrics.jsonl. A last line that was cut by a kill is skipped. Throws InputError for any other line that is not JSON.
std::optional<RunHistory> read_run_history(const std::string& path);
RunHistory parse_run_history(std::string_view text, const std::string& file_name);

// Curves of loss, accuracy or correlations and error, mean rank, ratio, memory, time.
std::vector<Chart> curves_of(const RunHistory& history);
// The same curves of two runs, together in each picture.
std::vector<Chart> compared_curves(const RunHistory& a, const std::string& name_a, const RunHistory& b,
                                   const std::string& name_b);
std::vector<Chart> rank_charts(const RunHistory& history);  // one per tensor train, a line per inner bond
Json to_json(const RunHistory& history);  // the numbers of the curves and of the ranks, as lists over steps

}  // namespace comera::report
