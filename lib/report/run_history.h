// The history of a run: metrics.jsonl, one object per line, read back for curves.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/report/json.h"
#include "lib/report/svg.h"

namespace comera::report {

struct RunHistory {
  std::vector<Json> lines;

  // A number over the steps, by key or by a path of keys ("dev.loss"); lines without it are left out.
  Series curve(const std::string& name, std::string_view path) const;
  // The last line that has the key, null where none has.
  const Json* last_with(std::string_view path) const;
  // The median over the last quarter of the lines that have it: one report is noise, and earlier ones are of other
  // ranks. NaN without any.
  double closing(std::string_view path) const;
};

// Of a run folder, or of a checkpoint inside one (up to its own step); nullopt where there is no metrics.jsonl. A last
// line that was cut by a kill is left out; any other that is not JSON is an InputError.
std::optional<RunHistory> read_run_history(const std::string& path);
RunHistory parse_run_history(std::string_view text, const std::string& file_name);

std::vector<Chart> curves_of(
    const RunHistory& history);  // loss, accuracy or correlations and error, mean rank, ratio, memory, time
// The same curves of two runs in one picture each.
std::vector<Chart> compared_curves(const RunHistory& a, const std::string& name_a, const RunHistory& b,
                                   const std::string& name_b);
std::vector<Chart> rank_charts(const RunHistory& history);  // one per tensor train, a line per inner bond
Json to_json(const RunHistory& history);  // the numbers of the curves and of the ranks, as lists over steps

}  // namespace comera::report
