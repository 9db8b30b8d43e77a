#include "lib/report/run/runs_table.h"

#include <algorithm>
#include <cmath>

#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "lib/io/json_file.h"
#include "lib/report/run/run_history.h"

namespace comera::report {
namespace {

FinishedRun read_run(const std::string& folder) {
  const std::string path = join_path(folder, "report.json");
  if (!path_exists(path))
    fail_input("[inspect] {}: holds no report.json; --runs takes folders of finished runs", folder);
  const auto history = read_run_history(folder);
  FinishedRun run{folder, io::read_json(path, io::largest_report), history ? history->closing("step_ms") : NAN};
  for (const char* key : {"step", "file_bytes", "totals", "memory"})
    if (!run.report.is_object() || !run.report.contains(key))
      fail_input("{}: '{}' is missing; is this the report of a run?", path, key);
  return run;
}

Cell number(const Json& value) {
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (value.is_number()) return value.get<double>();
  return {};
}

// The loss tells more than the share of words that are guessed. Other tasks have a measure that reads better.
bool predicts_words(const FinishedRun& run) {
  const Json task = run.report.value("settings", Json::object()).value("task", Json());
  return task == "clm" || task == "mlm";
}

Cell dev_loss(const Json& report) {
  const Json dev = report.value("dev", Json()), last = dev.is_object() ? dev.value("last", Json()) : Json();
  return last.is_object() ? number(last.value("loss", Json())) : Cell();
}

std::vector<Cell> row_of(const FinishedRun& run, const FinishedRun& first) {
  const Json& totals = run.report["totals"];
  const auto cell = [](double value) { return std::isfinite(value) ? Cell(value) : Cell(); };
  return {run.folder,
          number(run.report["step"]),
          number(run.report.value("accuracy", Json())),
          number(run.report.value("spearman", Json())),
          number(run.report.value("auc", Json())),
          number(run.report.value("nce", Json())),
          dev_loss(run.report),
          number(totals.value("parameters", Json())),
          number(run.report["file_bytes"]),
          number(totals.value("ratio", Json())),
          cell(run.step_ms),
          cell(first.step_ms / run.step_ms),
          number(run.report["memory"].value("measured_peak", Json()))};
}

void remove_column(Table& table, std::string_view key) {
  const auto column =
      std::find_if(table.columns.begin(), table.columns.end(), [&](const auto& one) { return one.key == key; });
  const auto index = column - table.columns.begin();
  table.columns.erase(column);
  for (auto& row : table.rows) row.erase(row.begin() + index);
}

}  // namespace

std::vector<FinishedRun> read_runs(std::span<const std::string> folders) {
  std::vector<FinishedRun> runs;
  for (const std::string& folder : folders) runs.push_back(read_run(folder));
  return runs;
}

Table runs_table(std::span<const FinishedRun> runs) {
  Table table;
  table.columns = {{"run", "run"},
                   {"step", "steps", Unit::count},
                   {"accuracy", "dev accuracy", Unit::share},
                   {"spearman", "dev Spearman", Unit::plain},
                   {"auc", "dev AUC", Unit::plain},
                   {"nce", "dev NCE", Unit::plain},
                   {"dev_loss", "dev loss", Unit::plain},
                   {"parameters", "parameters", Unit::count},
                   {"file_bytes", "bytes", Unit::bytes},
                   {"ratio", "ratio", Unit::ratio},
                   {"step_ms", "ms per step", Unit::ms},
                   {"speedup", "faster", Unit::ratio},
                   {"measured_peak", "peak memory", Unit::bytes}};
  table.dispensable = {"step", "speedup", "ratio"};
  for (const FinishedRun& run : runs) table.rows.push_back(row_of(run, runs.front()));
  // Accuracy and correlation belong to different tasks. A column without a value in any run is left out, but the
  // accuracy stays if neither has a value.
  const auto any = [&](const char* key) {
    return std::any_of(table.rows.begin(), table.rows.end(), [&](const std::vector<Cell>& row) {
      return !std::holds_alternative<std::monostate>(row[table.column(key)]);
    });
  };
  if (std::none_of(runs.begin(), runs.end(), predicts_words) || !any("dev_loss")) remove_column(table, "dev_loss");
  for (const char* key : {"auc", "nce"})
    if (!any(key)) remove_column(table, key);
  if (!any("spearman"))
    remove_column(table, "spearman");
  else if (!any("accuracy"))
    remove_column(table, "accuracy");
  return table;
}

}  // namespace comera::report
