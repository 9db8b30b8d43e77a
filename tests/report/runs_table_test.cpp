#include "lib/report/run/runs_table.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "lib/core/error.h"
#include "lib/core/files/file.h"

using namespace comera;

namespace {

// In the folder of temporary files, not in the current folder.
std::string scratch(const std::string& name) {
  return std::filesystem::temp_directory_path() / ("comera_runs_table_" + name);
}

std::string run_folder(const std::string& name, double step_ms) {
  const std::string folder = scratch(name);
  make_folders(folder);
  write_file_atomic(join_path(folder, "report.json"),
                    R"({"step": 8, "accuracy": 0.5, "file_bytes": 1000, "totals": {"parameters": 10, "ratio": 2.5},
          "memory": {"measured_peak": 4096}})");
  std::string metrics;
  for (int step = 1; step <= 8; ++step)  // the first reports are slow: they must not count
    metrics += fmt::format("{{\"step\":{},\"split\":\"train\",\"step_ms\":{}}}\n", step, step <= 6 ? 1000.0 : step_ms);
  write_file_atomic(join_path(folder, "metrics.jsonl"), metrics);
  return folder;
}

}  // namespace

TEST_CASE("a table compares runs with their final speed") {
  const std::vector<std::string> folders{run_folder("a", 40), run_folder("b", 10)};
  const report::Table table = report::runs_table(folders);
  REQUIRE(table.rows.size() == 2);
  CHECK(std::get<double>(table.rows[1][table.column("step_ms")]) == 10);
  CHECK(std::get<double>(table.rows[1][table.column("speedup")]) == 4);
  CHECK(std::get<double>(table.rows[0][table.column("ratio")]) == 2.5);
  CHECK(std::get<std::int64_t>(table.rows[0][table.column("measured_peak")]) == 4096);
}

TEST_CASE("an error names a folder without a finished run") {
  const std::string empty = scratch("empty");
  make_folders(empty);
  const std::vector<std::string> folders{empty};
  CHECK_THROWS_WITH(report::runs_table(folders), Catch::Contains(empty + ": holds no report.json"));
}
