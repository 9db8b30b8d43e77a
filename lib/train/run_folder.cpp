#include "lib/train/run_folder.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "lib/core/error.h"
#include "lib/core/file.h"
#include "lib/io/json_file.h"
#include "lib/train/weights_file.h"

namespace comera::train {
namespace {

constexpr const char* step_prefix = "step-";
constexpr const char* best_prefix = "best-";

std::string padded(std::int64_t step) { return fmt::format("{:08}", step); }

// What a run writes at the top of its folder beside checkpoints and tokenizer; anything else there is not ours to remove.
constexpr const char* own_names[] = {"config.json", "model.safetensors", "metrics.jsonl", "report.html", "report.json", "recipe.toml"};

void save_model(const std::string& folder, const Weights& weights, FileTypes types) {
  save_weights(join_path(folder, "model.safetensors"), weights, types);
  write_file_atomic(join_path(folder, "config.json"), weights.model().config_json());
}

}  // namespace

std::string TrainState::to_json() const {
  nlohmann::ordered_json json;
  json["schema_version"] = 1;
  json["step"] = step;
  json["data"] = data.to_json();
  json["rank_table"] = rank_table;
  json["ranks"] = ranks.to_json();
  json["seconds"] = seconds;
  json["metrics_bytes"] = metrics_bytes;
  json["tokens"] = tokens;
  json["best_step"] = best_step;
  json["best_loss"] = best_loss;
  json["best_accuracy"] = best_accuracy;
  json["evaluations_without_gain"] = evaluations_without_gain;
  json["evaluation_due"] = evaluation_due;
  json["recent_losses"] = recent_losses;
  json["first_loss"] = first_loss;
  return io::json_text(json);
}

TrainState TrainState::from_json(const std::string& text, const std::string& file_name) try {
  const io::Json json = io::parse_json(text, file_name);
  TrainState state;
  json.at("step").get_to(state.step);
  state.data = data::LoaderState::from_json(json.at("data").get<std::string>());
  json.at("rank_table").get_to(state.rank_table);
  state.ranks = RankProgress::from_json(json.at("ranks").get<std::string>());
  json.at("seconds").get_to(state.seconds);
  json.at("metrics_bytes").get_to(state.metrics_bytes);
  json.at("tokens").get_to(state.tokens);
  json.at("best_step").get_to(state.best_step);
  json.at("best_loss").get_to(state.best_loss);
  json.at("best_accuracy").get_to(state.best_accuracy);
  json.at("evaluations_without_gain").get_to(state.evaluations_without_gain);
  state.evaluation_due = json.value("evaluation_due", false);
  json.at("recent_losses").get_to(state.recent_losses);
  json.at("first_loss").get_to(state.first_loss);
  return state;
} catch (const nlohmann::json::exception& error) {
  const std::string_view what = error.what();  // "[json.exception...] what is wrong"
  fail_input("{}: not the state of a run: {}; remove this checkpoint to go on from the one before", file_name,
             what.substr(std::min(what.find(']') + 2, what.size())));
}

RunFolder::RunFolder(std::string path, Open open) : path_(std::move(path)), open_(open) {
  if (path_exists(path_) && !is_folder(path_)) fail_input("[run] {} is a file; name a folder with --output", path_);
  if (open != Open::fresh || !path_exists(path_)) return;
  for (const std::string& name : list_folder(path_))
    if (name != "recipe.toml.tmp")  // of a run that was killed as it began
      fail_input("[run] {} is not empty; --resume goes on with the run in it, --force replaces it", path_);
}

// The recipe comes first and goes last: a folder with anything of a run in it has the recipe to go on from.
void RunFolder::create(const std::string& recipe) {
  make_folders(path_);
  if (open_ == Open::replace) remove_run();
  save_recipe(recipe);
  make_folders(join_path(path_, "checkpoints"));
}

void RunFolder::save_recipe(const std::string& recipe) { write_file_atomic(recipe_path(), recipe); }

void RunFolder::remove_run() {
  const std::string checkpoints = join_path(path_, "checkpoints"), old = join_path(path_, "checkpoints.old");
  remove_tree(old);
  if (path_exists(checkpoints)) rename_path(checkpoints, old);  // in one instant: half a checkpoint must never look whole
  remove_tree(old);
  for (const char* name : own_names) remove_tree(join_path(path_, name));
}

std::string RunFolder::metrics_path() const { return join_path(path_, "metrics.jsonl"); }
std::string RunFolder::recipe_path() const { return join_path(path_, "recipe.toml"); }
std::string RunFolder::checkpoint_path(std::int64_t step) const { return join_path(join_path(path_, "checkpoints"), step_prefix + padded(step)); }
std::string RunFolder::best_path(std::int64_t step) const { return join_path(join_path(path_, "checkpoints"), best_prefix + padded(step)); }

std::vector<std::int64_t> RunFolder::numbered(const std::string& prefix) const {
  std::vector<std::int64_t> steps;
  if (!is_folder(join_path(path_, "checkpoints"))) return steps;
  for (const std::string& name : list_folder(join_path(path_, "checkpoints"))) {
    if (!name.starts_with(prefix)) continue;
    const std::optional<std::int64_t> step = parse_integer(name.substr(prefix.size()));
    if (step && prefix + padded(*step) == name) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::vector<std::int64_t> RunFolder::checkpoints() const { return numbered(step_prefix); }

void RunFolder::save_tokenizer(const data::Tokenizer& tokenizer) { tokenizer.save(path_); }

void RunFolder::save(const Weights& weights, const TrainState& state) {
  AtomicFolder folder(checkpoint_path(state.step));
  save_model(folder.temporary(), weights, FileTypes::memory);
  save_moments(join_path(folder.temporary(), "optimizer.safetensors"), weights);
  write_file_atomic(join_path(folder.temporary(), "state.json"), state.to_json());
  folder.commit();
}

TrainState RunFolder::read_state(std::int64_t step) const {
  const std::string path = join_path(checkpoint_path(step), "state.json");
  return TrainState::from_json(read_file(path, io::largest_state), path);
}

void RunFolder::load(std::int64_t step, Weights& weights) const {
  load_weights(join_path(checkpoint_path(step), "model.safetensors"), weights);
  load_moments(join_path(checkpoint_path(step), "optimizer.safetensors"), weights);
}

void RunFolder::save_best(const Weights& weights, std::int64_t step) {
  AtomicFolder folder(best_path(step));
  save_model(folder.temporary(), weights, FileTypes::stored);
  folder.commit();
}

void RunFolder::prune(std::int64_t keep, const TrainState& state) {
  const std::vector<std::int64_t> steps = checkpoints();
  for (std::size_t i = 0; i + static_cast<std::size_t>(keep) < steps.size(); ++i) remove_tree(checkpoint_path(steps[i]));
  for (std::int64_t step : numbered(best_prefix))
    if (step != state.best_step) remove_tree(best_path(step));
}

void RunFolder::publish(const Weights& weights, const TrainState& state) {
  if (state.best_step < 0) return save_model(path_, weights, FileTypes::stored);
  for (const char* name : {"model.safetensors", "config.json"}) copy_file(join_path(best_path(state.best_step), name), join_path(path_, name));
}

}  // namespace comera::train
