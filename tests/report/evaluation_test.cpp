#include "lib/report/run/evaluation.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "lib/core/error.h"

using namespace comera;
using namespace comera::report;
using Catch::Matchers::Contains;

namespace {

EvaluationReport example() {
  EvaluationReport report;
  report.labels = {"no", "yes"};
  report.result.loss = 0.5;
  report.result.accuracy = 0.8;
  report.result.counted = 10;
  report.result.confusion = {{5, 1}, {1, 3}};
  return report;
}

}  // namespace

TEST_CASE("A requirement holds, fails with the value, or is malformed") {
  for (const char* met : {"accuracy>=0.8", "accuracy >= 0.8", "accuracy>0.79", "loss<=0.5", "loss<1e0"})
    CHECK_NOTHROW(require_metric(example(), met));
  CHECK_THROWS_AS(require_metric(example(), "accuracy>0.8"), RunError);
  CHECK_THROWS_WITH(require_metric(example(), "loss<0.5"), Contains("loss<0.5 is not met: loss is 0.5"));
  for (const char* wrong : {"accuracy", "accuracy=0.8", "accuracy>=high", "recall>=0.5", "perplexity<3", ">=0.5", ""})
    CHECK_THROWS_AS(require_metric(example(), wrong), InputError);
}

TEST_CASE("A metric without a measurement meets no requirement") {
  EvaluationReport nothing = example();
  nothing.result.accuracy = std::nan("");
  CHECK_THROWS_AS(require_metric(nothing, "accuracy>=0"), RunError);
  CHECK_THROWS_AS(require_metric(nothing, "accuracy<=1"), RunError);
  const std::vector<Metric> cosine{{"cosine", 1}};
  CHECK_NOTHROW(require_metric(cosine, {"cosine>=1", "cosine", ">=", 1}, ""));
  CHECK_THROWS_AS(require_metric(cosine, {"kl<=1", "kl", "<=", 1}, ""), RunError);
}

TEST_CASE("The JSON of an evaluation has the keys for scripts") {
  const Json json = to_json(example());
  CHECK((json["accuracy"] == 0.8 && json["loss"] == 0.5 && json["examples"] == 10));
  CHECK(json["confusion"][0][1] == 1);
  CHECK_FALSE(json.contains("perplexity"));
  EvaluationReport mlm = example();
  mlm.task = data::Task::mlm;
  mlm.result.loss = std::log(7.0);
  CHECK(to_json(mlm)["perplexity"].get<double>() == Approx(7));
  const Json labels = to_json(label_table(example()));
  CHECK((labels[0]["examples"] == 6 && labels[1]["taken_for"] == "no (1)"));
  CHECK(labels[0]["recall"].get<double>() == Approx(5.0 / 6));
  CHECK(labels[1]["precision"].get<double>() == Approx(3.0 / 4));
  const Table table = confusion_table(example());
  CHECK(table.columns.size() == 3);
  CHECK(std::get<std::int64_t>(table.rows[1][2]) == 3);
}

TEST_CASE("A regression has an error and correlations, and neither accuracy nor confusion") {
  EvaluationReport report;
  report.task = data::Task::regression;
  report.labels = {"LABEL_0"};
  report.result.task = report.task;
  report.result.loss = 0.25;
  report.result.counted = 4;
  report.result.scores = {4, 0.25, 0.5, 0.75};
  const Json json = to_json(report);
  CHECK((json["task"] == "regression" && json["rmse"] == 0.5 && json["mse"] == 0.25 && json["pearson"] == 0.5 &&
         json["spearman"] == 0.75));
  for (const char* key : {"accuracy", "labels", "confusion"}) CHECK_FALSE(json.contains(key));
  CHECK_NOTHROW(require_metric(report, "spearman>=0.75"));
  CHECK_NOTHROW(require_metric(report, "rmse<0.6"));
  CHECK_THROWS_AS(require_metric(report, "pearson>0.5"), RunError);
  CHECK_THROWS_AS(require_metric(report, "accuracy>0"), InputError);
  const Table table = summary_table(report);
  CHECK(table.column("spearman") >= 0);
  CHECK(table.column("accuracy") < 0);
}
