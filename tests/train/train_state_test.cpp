#include "lib/train/train_state.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "lib/core/error.h"
#include "lib/core/hash.h"
#include "lib/io/json.h"
#include "tests/core/cpu_seconds.h"

using namespace comera;

TEST_CASE("train state: the ranks of 100,000 chains are written and read in less than a second each") {
  train::TrainState state;
  for (int i = 0; i < 100'000; ++i) state.rank_table[fmt::format("model.layers.{}.mlp.up_proj", i)] = {1, i % 64, 1};
  state.core_rates = {{"model.layers.0.mlp.up_proj", {0.1, 7.25}}};
  const double start = cpu_seconds();
  const std::string text = state.to_json();
  const double written = cpu_seconds();
  CHECK(written - start < second());
  const train::TrainState read = train::TrainState::from_json(text, "state.json");
  CHECK(cpu_seconds() - written < second());
  CHECK(read.rank_table == state.rank_table);
  CHECK(read.core_rates == state.core_rates);
}

namespace {

engine::ClickMetrics clicks() {
  engine::ClickMetrics clicks;
  clicks.count = 7, clicks.clicks = 3;
  clicks.auc = 2.0 / 3, clicks.nce = std::nan(""), clicks.calibration = 1.1;
  clicks.bins = {{4, 0.1, 0.25}, {3, 1 / 3.0, std::nan("")}};
  return clicks;
}

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

void check_same(const engine::ClickMetrics& read, const engine::ClickMetrics& wanted) {
  CHECK(read.count == wanted.count);
  CHECK(read.clicks == wanted.clicks);
  CHECK(same(read.auc, wanted.auc));
  CHECK(same(read.nce, wanted.nce));
  CHECK(same(read.calibration, wanted.calibration));
  REQUIRE(read.bins.size() == wanted.bins.size());
  for (std::size_t i = 0; i < wanted.bins.size(); ++i) {
    CHECK(read.bins[i].count == wanted.bins[i].count);
    CHECK(same(read.bins[i].predicted, wanted.bins[i].predicted));
    CHECK(same(read.bins[i].observed, wanted.bins[i].observed));
  }
}

// A state with metrics of clicks, changed by `change` and with a right checksum.
template <class Change>
std::string changed(const Change& change) {
  train::TrainState state;
  state.best_clicks = clicks();
  io::Json json = io::parse_json(state.to_json(), "state.json");
  json.erase("checksum");
  change(json);
  json["checksum"] = hash_text(json.dump());
  return json.dump();
}

std::string refusal(const char* key, const io::Json& value) {
  try {
    train::TrainState::from_json(changed([&](io::Json& json) { json["best_clicks"][key] = value; }), "state.json");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("train state: metrics of clicks keep every bit, NaN among them") {
  train::TrainState state;
  state.best_clicks = clicks();
  state.evaluation.clicks = clicks();
  state.evaluation.clicks.nce = 0.7;
  const train::TrainState read = train::TrainState::from_json(state.to_json(), "state.json");
  check_same(read.best_clicks, state.best_clicks);
  check_same(read.evaluation.clicks, state.evaluation.clicks);
  check_same(train::TrainState::from_json(train::TrainState().to_json(), "state.json").best_clicks, {});
}

TEST_CASE("train state: a state from before the metrics of clicks has none") {
  const std::string text = changed([](io::Json& json) { json.erase("best_clicks"), json.erase("evaluation_clicks"); });
  check_same(train::TrainState::from_json(text, "state.json").best_clicks, {});
}

TEST_CASE("train state: metrics of clicks that no evaluation gives are refused") {
  CHECK(refusal("count", 0) ==
        "state.json: best_clicks: count is 0; a number from 1 to 9223372036854775807 was wanted; it is damaged");
  CHECK(refusal("count", 8) == "state.json: best_clicks: 1 of 8 examples are in no bin; it is damaged");
  CHECK(refusal("count", std::numeric_limits<std::uint64_t>::max())
            .ends_with("18446744073709551615 came; it is damaged"));
  CHECK(refusal("clicks", 8) == "state.json: best_clicks: clicks is 8; a number from 0 to 7 was wanted; it is damaged");
  CHECK(refusal("auc", 1.5) == "state.json: best_clicks: auc is 1.5; a number from 0 to 1 was wanted; it is damaged");
  CHECK(refusal("nce", -1).find("nce is -1; a number from 0") != std::string::npos);
  CHECK(refusal("nce", "NaN").find("state.json: not the state of a run") == 0);
  CHECK(refusal("bins", "many").find("bins are string; an array was wanted") != std::string::npos);
  CHECK(refusal("bins", nullptr).find("bins are null; an array was wanted") != std::string::npos);
  const io::Json bin{{"count", 1}, {"predicted", 0.5}, {"observed", 0.5}},
      huge{{"count", std::numeric_limits<std::int64_t>::max()}, {"predicted", 0.5}, {"observed", 0.5}};
  CHECK(refusal("bins", std::vector<io::Json>(11, bin)).find("there are 11 bins; at most 10 were wanted") !=
        std::string::npos);
  CHECK(refusal("bins", std::vector<io::Json>{bin}).find("6 of 7 examples are in no bin") != std::string::npos);
  CHECK(refusal("bins", std::vector<io::Json>{bin, huge}).find("count is 9223372036854775807; a number from 1 to 6") !=
        std::string::npos);
}
