#include "lib/report/run/runs_table.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "lib/report/output/label_places.h"
#include "lib/report/run/runs_page.h"

using namespace comera;

namespace {

// In the folder of temporary files, not in the current folder.
std::string scratch(const std::string& name) {
  return std::filesystem::temp_directory_path() / ("comera_runs_table_" + name);
}

std::string run_folder(const std::string& name, double step_ms, const std::string& task = "classify") {
  const std::string folder = scratch(name);
  make_folders(folder);
  write_file_atomic(join_path(folder, "report.json"),
                    R"({"step": 8, "accuracy": 0.5, "file_bytes": 1000, "totals": {"parameters": 10, "ratio": 2.5},
          "memory": {"measured_peak": 4096}, "dev": {"last": {"loss": 2.5}}, "settings": {"task": ")" +
                        task + "\"}}");
  std::string metrics;
  for (int step = 1; step <= 8; ++step)  // the first reports are slow: they must not count
    metrics += fmt::format("{{\"step\":{},\"split\":\"train\",\"step_ms\":{}}}\n", step, step <= 6 ? 1000.0 : step_ms);
  write_file_atomic(join_path(folder, "metrics.jsonl"), metrics);
  return folder;
}

}  // namespace

TEST_CASE("a table compares runs with their final speed") {
  const std::vector<std::string> folders{run_folder("a", 40), run_folder("b", 10)};
  const report::Table table = report::runs_table(report::read_runs(folders));
  REQUIRE(table.rows.size() == 2);
  CHECK(std::get<double>(table.rows[1][table.column("step_ms")]) == 10);
  CHECK(std::get<double>(table.rows[1][table.column("speedup")]) == 4);
  CHECK(std::get<double>(table.rows[0][table.column("ratio")]) == 2.5);
  CHECK(std::get<std::int64_t>(table.rows[0][table.column("measured_peak")]) == 4096);
  const auto has_loss = [](const report::Table& runs) {
    return std::any_of(runs.columns.begin(), runs.columns.end(), [](const auto& c) { return c.key == "dev_loss"; });
  };
  CHECK_FALSE(has_loss(table));
  const std::vector<std::string> words{folders.front(), run_folder("c", 40, "clm")};
  const report::Table of_words = report::runs_table(report::read_runs(words));
  REQUIRE(has_loss(of_words));
  CHECK(std::get<double>(of_words.rows[1][of_words.column("dev_loss")]) == 2.5);
}

TEST_CASE("a page of runs shows loss against bytes, memory and time, with the runs that no other beats in both") {
  report::Table table;
  table.columns = {{"run", "run"},
                   {"dev_loss", "dev loss"},
                   {"file_bytes", "bytes", report::Unit::bytes},
                   {"step_ms", "ms per step", report::Unit::ms},
                   {"measured_peak", "peak memory", report::Unit::bytes}};
  const auto add = [&](const char* run, const report::Cell& loss, double ms, std::int64_t bytes) {
    table.rows.push_back({std::string(run), loss, bytes / 4, ms, bytes});
  };
  add("runs/a/small", 3.0, 30.0, 1 << 20);
  add("runs/a/<large>", 1.0, 10.0, 9 << 20);
  add("runs/a/beaten", 3.5, 20.0, 5 << 20);
  add("runs/a/unmeasured", {}, 5.0, 1 << 20);
  const std::string page = report::runs_page(table, {});
  const auto count = [&](const char* text) {
    std::size_t found = 0;
    for (std::size_t at = page.find(text); at != std::string::npos; at = page.find(text, at + 1)) ++found;
    return found;
  };
  CHECK(count("<figcaption>") == 3);
  CHECK(count("<figcaption>dev loss against bytes") == 1);
  CHECK(count("<figcaption>dev loss against peak memory") == 1);
  CHECK(count("<figcaption>dev loss against ms per step") == 1);
  CHECK(count(">small</text>") == 3);  // without the folder that all have in common
  CHECK(count(">&lt;large&gt;</text>") == 3);
  CHECK(count("unmeasured</text>") == 0);
  CHECK(count("<circle") == 3 * 3);
  CHECK(count("class=\"line") == 2);  // against time the large run beats all others
  table.rows.resize(1);
  CHECK(report::runs_page(table, {}).find("<svg") == std::string::npos);
}

TEST_CASE("names of points cover neither each other nor points, and stay in the picture") {
  report::LabelPlaces places({0, 0, 100, 60});
  places.keep_free(20, 30);
  const auto first = places.place(20, 30, 5);
  REQUIRE(first);
  CHECK(first->x > 20);
  places.keep_free(21, 30);
  const auto second = places.place(21, 30, 1);
  REQUIRE(second);
  CHECK(second->x + 6 < 20);              // to the left of both
  CHECK_FALSE(places.place(50, 30, 30));  // wider than the picture
}

TEST_CASE("an error names a folder without a finished run") {
  const std::string empty = scratch("empty");
  make_folders(empty);
  const std::vector<std::string> folders{empty};
  CHECK_THROWS_WITH(report::read_runs(folders), Catch::Contains(empty + ": holds no report.json"));
}
