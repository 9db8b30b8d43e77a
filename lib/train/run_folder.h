// The folder of a run: recipe.toml, metrics.jsonl, checkpoints/step-*, and at its top the best (or last) model with its
// tokenizer. Every write but that of metrics.jsonl is whole or not there, so that a run killed at any instant goes on
// from its last checkpoint.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/core/folder_lock.h"
#include "lib/core/options.h"
#include "lib/train/owned_files.h"
#include "lib/train/train_state.h"

namespace comera::train {

// What recipe.toml says beside the options: hashes of what the run read.
struct RecipeHashes {
  std::string data, dev, tokenizer;  // "" where there is none
};

// One process at a time has it open. It is written to by descriptor, and no link in it is followed.
class RunFolder {
 public:
  enum class Open : std::uint8_t { fresh, replace, resume };

  // InputError: another process has it; it holds links; fresh: something is in it already; replace: what is in it is no
  // run. Of a folder that is there only the lock is taken, one that is not there is not made yet.
  RunFolder(std::string path, Open open);
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;
  ~RunFolder();
  // Makes the folder with its recipe.toml and with the files and folders that `others` puts into the empty folder that
  // it is given: tokenizer, and what a model has beside its weights. Only when these are complete does `replace` remove
  // the run that is there (owned_files.h), and nothing else.
  void create(const std::string& recipe, const std::function<void(const Folder& folder)>& others = {});
  void save_recipe(const std::string& recipe);

  const std::string& path() const { return path_; }
  const Folder& folder() const { return *folder_; }  // after create(), or where it was there
  std::string recipe_path() const;
  std::string checkpoint_path(std::int64_t step) const;
  std::vector<std::int64_t> checkpoints() const;  // written to their end, ascending

  // With a checksum of every file of the checkpoint, and of the best model, in state.json.
  void save(const Weights& weights, TrainState state);
  // The newest checkpoint's, or nullopt where there is none. Every file that it names must have its checksum:
  // InputError otherwise, which names the checkpoint before; with `skip_damaged` a warning, and the newest whole one
  // counts.
  std::optional<TrainState> last_state(bool skip_damaged) const;
  void load(std::int64_t step, Weights& weights) const;

  // The best model so far, in a folder of its own until another is better and a checkpoint knows so.
  void save_best(const Weights& weights, std::int64_t step);
  // Removes checkpoints beyond `keep` and later than `state` (just saved, or resumed from), and best models that it
  // does not name.
  void prune(std::int64_t keep, const TrainState& state);
  // Puts config.json and model.safetensors at the top: the best model where there is one, else these weights.
  void publish(const Weights& weights, const TrainState& state);

 private:
  void open_existing();
  void make();
  void require_empty() const;
  void require_no_links() const;
  void remove_run();
  TrainState whole_state(std::int64_t step) const;
  std::vector<std::int64_t> numbered(const std::string& prefix) const;
  std::string checkpoints_path() const;
  Folder checkpoint(const std::string& name) const;
  OwnedFiles files_before() const;

  std::string path_;
  Open open_;
  bool made_here_ = false;  // and nothing of a run is in it yet
  std::optional<Folder> folder_, checkpoints_;
  OwnedFiles files_;  // in recipe.toml
  std::unique_ptr<FolderLock> lock_;
};

// Every resolved option and the hashes; running it again reproduces the run.
std::string recipe_text(const OptionValues& values, const RecipeHashes& hashes);
// What stands behind it where paths were measured, and what a recipe has of that.
std::string recipe_text(const plan::PathTable& paths);
plan::PathTable recipe_paths(const std::string& recipe, const std::string& file_name);
// The recipe of a run folder, or nullopt where there is none.
std::optional<std::string> read_recipe(const std::string& folder);
RecipeHashes recipe_hashes(const std::string& recipe, const std::string& file_name);
// Refuses, by name, options that would change the result, and data that changed; with `override_changes` it only warns.
void check_resume(const OptionValues& before, const OptionValues& now, bool override_changes);
void check_resume(const RecipeHashes& before, const RecipeHashes& now, bool override_changes);

}  // namespace comera::train
