#include "lib/report/run/rank_map.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "lib/io/json.h"

using namespace comera;

TEST_CASE("a map of ranks has a row per weight and a column per run, empty where a run has no ranks") {
  const auto run = [](const std::string& folder, const std::string& layers) {
    return report::FinishedRun{folder, io::parse_json(R"({"layers": [)" + layers + "]}", folder), 1.0};
  };
  const std::vector<report::FinishedRun> runs{
      run("runs/tt", R"({"name": "b.weight", "ranks": [1, 4, 8, 1]}, {"name": "a<.weight", "ranks": [1, 5, 1]})"),
      run("runs/half", R"({"name": "b.weight", "ranks": [1, 2, 1, 1]}, {"name": "a<.weight", "ranks": []})"),
      run("runs/dense", R"({"name": "b.weight", "ranks": []})"),
      run("runs/bias",
          R"({"name": "b.weight", "ranks": [1, 0, 0, 1]}, {"name": 3, "ranks": [1, 2, 1]}, 7)")};  // no name, no layer
  const report::HeatMap map = report::rank_map(runs);
  CHECK(map.columns == std::vector<std::string>{"runs/tt", "runs/half", "runs/bias"});
  CHECK(map.rows == std::vector<std::string>{"a<", "b"});
  CHECK(map.values[1] == std::vector<double>{6, 1.5, 0});
  CHECK(map.values[0][0] == 5);
  CHECK(std::isnan(map.values[0][1]));
  const std::string picture = report::heat_map(map);
  CHECK(picture.find(">a&lt;</text>") != std::string::npos);
  CHECK(picture.find("fill-opacity=\"0.15\"") != std::string::npos);  // a quarter of the largest in the row
  CHECK(picture.find(">1.5</text>") != std::string::npos);
  CHECK(report::heat_map({}).empty());
  CHECK(report::rank_map(std::vector{runs[0]}).rows.size() == 2);
}
