// The folder of a run: recipe.toml, metrics.jsonl, checkpoints/step-*, and at the top the best (or last) model with its
// tokenizer. Every write except that of metrics.jsonl is atomic, so that a run killed at any instant resumes from its
// last checkpoint.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/core/files/folder_lock.h"
#include "lib/core/options/options.h"
#include "lib/train/owned_files.h"
#include "lib/train/train_state.h"

namespace comera::train {

// Hashes of the inputs of a run, which recipe.toml stores beside the options.
struct RecipeHashes {
  std::string data, dev, tokenizer;  // "" if there is none
};

// Only one process at a time may open a run folder. Files are accessed by descriptor, and no link in the folder is
// followed.
class RunFolder {
 public:
  enum class Open : std::uint8_t { fresh, replace, resume };

  // Throws InputError if another process holds the folder or it contains links; with `fresh` also if it is not empty;
  // with `replace` also if it contains other files but no run. Takes only the lock of an existing folder and does not
  // create a missing one yet.
  RunFolder(std::string path, Open open);
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;
  ~RunFolder();
  // Creates the folder with its recipe.toml; none: the one of a resumed run stays. `others` writes further files and
  // folders into the empty folder that it receives: tokenizer, and the files of a model beside its weights. Only when
  // these are complete does `replace` remove the existing run (owned_files.h), and nothing else.
  void create(const std::optional<std::string>& recipe, const std::function<void(const Folder& folder)>& others = {});
  // For a run that resumes: every file that its recipe lists must exist with its checksum. Takes a missing or changed
  // one from those that `others` writes, if they have that checksum; else InputError with its name, or a warning with
  // `override_changes`. Changed documents (README.md) stay as they are.
  void mend(const std::function<void(const Folder& folder)>& others, bool override_changes);
  void save_recipe(const std::string& recipe);

  const std::string& path() const { return path_; }
  const Folder& folder() const { return *folder_; }  // after create(), or if it existed before
  std::string recipe_path() const;
  std::string checkpoint_path(std::int64_t step) const;
  std::vector<std::int64_t> checkpoints() const;  // complete ones, ascending

  // state.json gets a checksum of every file of the checkpoint and of the best model.
  void save(const Weights& weights, TrainState state);
  // Returns the state of the newest checkpoint, or nullopt if there is none. Every file that it names must have its
  // checksum. Otherwise throws InputError that names the checkpoint before; with `skip_damaged` warns and uses the
  // newest undamaged one.
  std::optional<TrainState> last_state(bool skip_damaged) const;
  void load(std::int64_t step, Weights& weights) const;

  // Stores the best model so far in its own folder. It stays until a checkpoint names a better one.
  void save_best(const Weights& weights, std::int64_t step);
  // Removes checkpoints beyond `keep`, checkpoints later than `state` (just saved, or resumed from), and best models
  // that `state` does not name.
  void prune(std::int64_t keep, const TrainState& state);
  // Writes config.json and model.safetensors at the top: the best model if there is one, else these weights.
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
  bool made_here_ = false;  // created by this object and still without files of a run
  std::optional<Folder> folder_, checkpoints_;
  OwnedFiles files_;  // in recipe.toml
  std::unique_ptr<FolderLock> lock_;
};

// Every resolved option and the hashes. A run of this recipe reproduces the result.
std::string recipe_text(const OptionValues& values, const RecipeHashes& hashes);
// The table that follows it if paths were measured, and the paths that a recipe contains.
std::string recipe_text(const plan::PathTable& paths);
plan::PathTable recipe_paths(const std::string& recipe, const std::string& file_name);
// Returns the recipe of a run folder, or nullopt if there is none.
std::optional<std::string> read_recipe(const std::string& folder);
// The same for a folder with a model, which may be of others: nullopt too if its recipe.toml is of another program,
// because it names no verb. InputError if it is no TOML.
std::optional<std::string> recipe_of_model(const std::string& folder);
RecipeHashes recipe_hashes(const std::string& recipe, const std::string& file_name);
// Throws InputError with the names of options that would change the result, or if the data changed. With
// `override_changes` it only warns.
void check_resume(const OptionValues& before, const OptionValues& now, bool override_changes);
void check_resume(const RecipeHashes& before, const RecipeHashes& now, bool override_changes);

}  // namespace comera::train
