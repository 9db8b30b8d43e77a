#include "lib/report/weights/model_report.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "lib/core/error.h"

using namespace comera;
using namespace comera::report;
using Catch::Matchers::Contains;

namespace {

const char* const metrics = R"({"step":1,"loss":3.2,"rank":30,"ratio":40.5,"ranks":{"a.query":[1,4,30,4,1]},)"
                            R"("memory":{"weights":1000,"peak":5000}}
{"step":2,"loss":3.0}
{"step":2,"dev":{"loss":3.1,"accuracy":0.25}}
{"step":3,"loss":2.5,"rank":28,"ratio":42,"ranks":{"a.query":[1,4,28,4,1]}}
{"step":4,"lo)";

std::string folder() {
  const char* data = std::getenv("COMERA_DATA");
  return data ? std::string(data) + "/checkpoints/" : "";
}

}  // namespace

TEST_CASE("A history keeps complete lines and has curves and ranks over steps") {
  const RunHistory history = parse_run_history(metrics, "metrics.jsonl");
  REQUIRE(history.lines.size() == 4);
  CHECK(history.curve("loss", "loss").y == std::vector<double>{3.2, 3.0, 2.5});
  CHECK(history.curve("dev", "dev.accuracy").x == std::vector<double>{2});
  CHECK(*history.last_with("ratio") == 42);
  CHECK(history.last_with("nothing") == nullptr);
  const auto charts = rank_charts(history);
  REQUIRE(charts.size() == 1);
  CHECK(charts[0].title == "a.query");
  REQUIRE(charts[0].series.size() == 3);
  CHECK(charts[0].series[1].y == std::vector<double>{30, 28});
  const Json json = to_json(history);
  CHECK(json["loss"]["value"] == std::vector<double>{3.2, 3.0, 2.5});
  CHECK(json["ranks"]["a.query"]["bonds"][1] == std::vector<double>{30, 28});
}

TEST_CASE("A page shows ranks over the steps if they change, and no chart of constant values") {
  ModelReport report;
  io::TensorForm layer;
  layer.name = "a.query.weight", layer.layout.ranks = {1, 4, 28, 4, 1}, layer.initial_ranks = {1, 4, 30, 4, 1};
  report.layers = {layer};
  report.history = parse_run_history(metrics, "metrics.jsonl");
  CHECK_THAT(to_html(report), Contains("Ranks over the steps") && Contains("Ranks per bond") && Contains(">28</text>"));
  report.history = parse_run_history("{\"step\":1,\"ratio\":1,\"ranks\":{\"a\":[1,4,1]}}\n{\"step\":9,\"ratio\":1}\n",
                                     "metrics.jsonl");
  CHECK_THAT(to_html(report),
             !Contains("Ranks over the steps") && !Contains("ratio (dense / compressed)") && !Contains(">Training<"));
}

TEST_CASE("The reports of a long run are thinned out evenly, and nothing else") {
  std::string text;
  constexpr int steps = 20'000;
  for (int step = 1; step <= steps; ++step) {
    text += fmt::format("{{\"step\":{},\"loss\":{}}}\n", step, steps - step);
    if (step % 1000 == 0) text += fmt::format("{{\"step\":{},\"dev\":{{\"loss\":1}}}}\n", step);
    if (step % 5000 == 7) text += fmt::format("{{\"step\":{},\"ranks\":{{\"a\":[1,4,1]}}}}\n", step);
  }
  text += fmt::format("{{\"step\":{},\"loss\":-1}}\n", steps + 1);
  const RunHistory history = parse_run_history(text, "metrics.jsonl");
  const Series loss = history.curve("", "loss");
  CHECK(loss.x.size() > static_cast<std::size_t>(most_reports) / 2);
  CHECK(loss.x.size() <= static_cast<std::size_t>(most_reports) + 1);
  for (std::size_t i = 2; i + 1 < loss.x.size(); ++i) CHECK(loss.x[i] - loss.x[i - 1] == loss.x[1] - loss.x[0]);
  CHECK(loss.x.front() == 1);
  CHECK(loss.y.back() == -1);
  CHECK(history.curve("", "dev.loss").x.size() == steps / 1000);
  CHECK(history.last_with("ranks") != nullptr);
}

TEST_CASE("Ranks hold to the end of the run") {
  const RunHistory history =
      parse_run_history("{\"step\":1,\"ranks\":{\"a\":[1,4,1]}}\n{\"step\":9,\"loss\":1}\n", "metrics.jsonl");
  const auto charts = rank_charts(history);
  REQUIRE(charts.size() == 1);
  CHECK(charts[0].series[0].x == std::vector<double>{1, 9});
  CHECK(charts[0].series[0].y == std::vector<double>{4, 4});
}

TEST_CASE("An error names a broken line inside a history") {
  CHECK_THROWS_WITH(parse_run_history("{\"step\":1}\n{oops\n{\"step\":3}\n", "run/metrics.jsonl"),
                    Contains("run/metrics.jsonl:2"));
}

TEST_CASE("Compared curves contain both runs") {
  const RunHistory history = parse_run_history(metrics, "metrics.jsonl");
  const auto charts = compared_curves(history, "a", history, "b");
  REQUIRE(!charts.empty());
  for (const Chart& chart : charts) CHECK(chart.series.size() == 2);
}

TEST_CASE("The parameters and shares of a dense checkpoint add up") {
  if (folder().empty()) {
    WARN("COMERA_DATA is not set: nothing was read");
    return;
  }
  const ModelReport report = read_model_report(folder() + "stories260K");
  CHECK(report.totals.parameters == 260032);
  CHECK(report.totals.bytes == 4 * 260032);
  CHECK(report.totals.ratio() == 1);
  CHECK(report.architecture == "llama");
  CHECK(report.file_bytes > report.totals.bytes);
  const Json json = to_json(report);
  CHECK(json["schema_version"] == 1);
  std::int64_t parameters = 0;
  double share = 0;
  for (const Json& layer : json["layers"])
    parameters += layer["parameters"].get<std::int64_t>(), share += layer["share"].get<double>();
  CHECK(parameters == 260032);
  CHECK(share == Approx(1));
}

TEST_CASE("A filtered table has the totals of the selection and of the model") {
  if (folder().empty()) {
    WARN("COMERA_DATA is not set: nothing was read");
    return;
  }
  ModelReport report = read_model_report(folder() + "all-MiniLM-L6-v2");
  const std::int64_t all = report.totals.parameters;
  filter(report, "*layer.0.*query*");
  REQUIRE(report.layers.size() == 2);
  const Table table = layer_table(report);
  REQUIRE(table.totals.size() == 2);
  CHECK(std::get<std::int64_t>(table.totals[0][7]) == 384 * 384 + 384);
  CHECK(std::get<std::int64_t>(table.totals[1][7]) == all);
  CHECK_THROWS_WITH(filter(report, "nothing.like.this"), Contains("matches none"));
}

TEST_CASE("Two models are compared weight by weight") {
  if (folder().empty()) {
    WARN("COMERA_DATA is not set: nothing was read");
    return;
  }
  const ModelReport a = read_model_report(folder() + "stories15M"), b = read_model_report(folder() + "stories260K");
  const Table table = compare_table(a, b);
  CHECK(table.rows.size() == a.layers.size());  // 6 layers against 5
  CHECK(compare_json(a, b)["layers"].size() == a.layers.size());
  CHECK_THAT(compare_html(a, b), Contains("<table>"));
}
