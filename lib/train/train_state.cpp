#include "lib/train/train_state.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "lib/core/error.h"
#include "lib/core/hash.h"
#include "lib/train/click_state.h"
#include "lib/train/whole_number.h"

namespace comera::train {

namespace {

constexpr const char* checksum_key = "checksum";
constexpr const char* version_key = "schema_version";
constexpr int version = 2;

template <class Scores, class Visit>
void each_score(const std::string& of, Scores& scores, const Visit& visit) {
  visit((of + "_scored").c_str(), scores.count);
  visit((of + "_mse").c_str(), scores.mse);
  visit((of + "_pearson").c_str(), scores.pearson);
  visit((of + "_spearman").c_str(), scores.spearman);
}

// Visits every field by name, for reading and writing. These fields exist since version 1, the first format.
template <class State, class Visit>
void each_first_field(State& state, const Visit& visit) {
  visit("step", state.step);
  visit("rank_table", state.rank_table);
  visit("seconds", state.seconds);
  visit("metrics_bytes", state.metrics_bytes);
  visit("tokens", state.tokens);
  visit("best_step", state.best_step);
  visit("best_loss", state.best_loss);
  visit("best_accuracy", state.best_accuracy);
  visit("evaluations_without_gain", state.evaluations_without_gain);
  visit("evaluation_due", state.evaluation_due);
  visit("recent_losses", state.recent_losses);
  visit("first_loss", state.first_loss);
}

template <class State, class Visit>
void each_field(State& state, const Visit& visit) {
  each_first_field(state, visit);
  each_score("best", state.best_scores, visit);
  visit("best_clicks", state.best_clicks);
  visit("evaluation_step", state.evaluation.step);
  visit("evaluation_loss", state.evaluation.loss);
  visit("evaluation_accuracy", state.evaluation.accuracy);
  visit("evaluation_seconds", state.evaluation.seconds);
  visit("evaluation_counted", state.evaluation.counted);
  each_score("evaluation", state.evaluation.scores, visit);
  visit("evaluation_clicks", state.evaluation.clicks);
  visit("stretch_loss", state.stretch.loss);
  visit("stretch_correct", state.stretch.correct);
  visit("stretch_seconds", state.stretch.seconds);
  visit("stretch_steps", state.stretch.steps);
  visit("stretch_tokens", state.stretch.tokens);
  visit("stretch_counted", state.stretch.counted);
  visit("means_loss", state.means.loss);
  visit("means_accuracy", state.means.accuracy);
  visit("means_step_ms", state.means.step_ms);
  visit("means_tokens_per_second", state.means.tokens_per_second);
  visit("files", state.files);
  visit("best_files", state.best_files);
  visit("core_rates", state.core_rates);
}

template <class Value>
io::Json written(const Value& value) {
  return value;
}

io::Json written(const ClickMetrics& clicks) { return clicks_json(clicks); }

template <class Value>
void read(const io::Json& json, Value& value) {
  json.get_to(value);
}

void read(const io::Json& json, std::int64_t& value) { value = whole_number(json); }

void read(const io::Json& json, std::uint64_t& value) {
  if (whole_number(json) < 0) fail_input("a count was wanted, {} came", json.dump());
  value = json.get<std::uint64_t>();
}

void read(const io::Json& json, ClickMetrics& clicks) { clicks = clicks_from(json); }

void read(const io::Json& json, layers::RankTable& table) {
  if (!json.is_object()) fail_input("lists of ranks by name were wanted");
  for (const auto& [name, ranks] : json.items())
    for (const io::Json& rank : ranks) table[name].push_back(whole_number(rank));
}

// JSON cannot hold a number that is not finite (the loss of an evaluation may be NaN), so null stands for it.
void read(const io::Json& json, double& value) { value = json.is_null() ? std::nan("") : json.get<double>(); }

void check(const TrainState& state, const std::string& file_name) {
  const auto finite = [](double value) { return std::isfinite(value); };
  const bool late = state.ranks.late_step >= 0 && state.ranks.late_step <= state.step;
  const bool counts = late && state.step >= 0 && state.tokens >= 0 && state.best_step >= -1 &&
                      state.best_step <= state.step && state.evaluation.step >= -1 &&
                      state.evaluation.step <= state.step && state.stretch.steps >= 0 &&
                      state.stretch.steps <= state.step && state.stretch.tokens >= 0 && state.stretch.counted >= 0;
  const bool rates = std::all_of(state.core_rates.begin(), state.core_rates.end(), [&](const auto& chain) {
    return std::all_of(chain.second.begin(), chain.second.end(), [&](double rate) { return rate > 0 && finite(rate); });
  });
  if (!counts || !rates || !(state.seconds >= 0) ||
      !std::all_of(state.recent_losses.begin(), state.recent_losses.end(), finite))
    fail_input("{}: its numbers contradict each other; it is damaged", file_name);
}

void require_checksum(io::Json& json, const std::string& file_name) {
  const auto checksum = json.at(checksum_key).get<std::string>();
  json.erase(checksum_key);
  if (hash_text(json.dump()) != checksum)
    fail_input("{}: does not have the checksum at its end; it was damaged", file_name);
}

}  // namespace

std::string TrainState::to_json() const {
  io::Json json;
  json[version_key] = version;
  each_field(*this, [&](const char* name, const auto& value) { json[name] = written(value); });
  json["data"] = data.to_json();
  json["ranks"] = ranks.to_json();
  json[checksum_key] = hash_text(json.dump());
  return io::json_text(json);
}

// Version 1 has no checksum of itself or of the files beside it.
TrainState TrainState::from_json(const std::string& text, const std::string& file_name) try {
  io::Json json = io::parse_json(text, file_name);
  const int found = json.at(version_key).get<int>();
  TrainState state;
  state.with_checksums = found != 1 || json.contains(checksum_key);
  const auto take = [&](const char* name, auto& value) {
    // Earlier states of version 2 have neither metrics of clicks nor rates of cores.
    constexpr bool later =
        std::is_same_v<decltype(value), ClickMetrics&> || std::is_same_v<decltype(value), CoreRates&>;
    if (later && !json.contains(name)) return;
    try {
      read(json.at(name), value);
    } catch (const InputError& error) {
      fail_input("{}: {}: {}; it is damaged", file_name, name, error.what());
    }
  };
  if (state.with_checksums) {
    require_checksum(json, file_name);
    if (found != version)
      fail_input("{}: is of version {}, and this program reads 1 and {}; use the program that wrote it", file_name,
                 found, version);
    each_field(state, take);
  } else {
    each_first_field(state, take);
  }
  state.data = data::LoaderState::from_json(json.at("data").get<std::string>());
  state.ranks = RankProgress::from_json(json.at("ranks").get<std::string>());
  check(state, file_name);
  return state;
} catch (const io::JsonError& error) {
  fail_input("{}: not the state of a run: {}", file_name, error.what());
}

}  // namespace comera::train
