#include "lib/report/evaluation.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "lib/core/error.h"

using namespace comera;
using namespace comera::report;
using Catch::Matchers::Contains;

namespace {

Evaluation example() {
  Evaluation evaluation{.examples = 10, .loss = 0.5, .accuracy = 0.8, .labels = {"no", "yes"}, .confusion = {{5, 1}, {1, 3}}};
  return evaluation;
}

}  // namespace

TEST_CASE("The probability of a class is that of the softmax") {
  const std::vector<double> logits = {std::log(1.0), std::log(3.0), std::log(4.0)};
  CHECK(probability_of(logits, 2) == Approx(0.5));
  CHECK(probability_of(logits, 0) == Approx(0.125));
  const std::vector<double> large = {1e4, 1e4 + 1};
  CHECK(probability_of(large, 1) == Approx(1 / (1 + std::exp(-1.0))));
}

TEST_CASE("A requirement holds, fails with the value, or is no requirement") {
  for (const char* met : {"accuracy>=0.8", "accuracy >= 0.8", "accuracy>0.79", "loss<=0.5", "loss<1e0"})
    CHECK_NOTHROW(require_metric(example(), met));
  CHECK_THROWS_AS(require_metric(example(), "accuracy>0.8"), RunError);
  CHECK_THROWS_WITH(require_metric(example(), "loss<0.5"), Contains("loss<0.5 is not met: loss is 0.5"));
  for (const char* wrong : {"accuracy", "accuracy=0.8", "accuracy>=high", "recall>=0.5", "perplexity<3", ">=0.5", ""})
    CHECK_THROWS_AS(require_metric(example(), wrong), InputError);
}

TEST_CASE("Nothing that was not measured meets a requirement") {
  Evaluation nothing = example();
  nothing.accuracy = std::nan("");
  CHECK_THROWS_AS(require_metric(nothing, "accuracy>=0"), RunError);
  CHECK_THROWS_AS(require_metric(nothing, "accuracy<=1"), RunError);
}

TEST_CASE("What scripts read of an evaluation") {
  const Json json = to_json(example());
  CHECK((json["accuracy"] == 0.8 && json["loss"] == 0.5 && json["examples"] == 10));
  CHECK(json["confusion"][0][1] == 1);
  CHECK_FALSE(json.contains("perplexity"));
  Evaluation mlm{.task = data::Task::mlm, .examples = 3, .loss = std::log(7.0), .accuracy = 0.1, .labels = {}, .confusion = {}};
  CHECK(to_json(mlm)["perplexity"].get<double>() == Approx(7));
  const Table table = confusion_table(example());
  CHECK(table.columns.size() == 3);
  CHECK(std::get<std::int64_t>(table.rows[1][2]) == 3);
}
