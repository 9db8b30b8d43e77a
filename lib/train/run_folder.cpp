#include "lib/train/run_folder.h"

#include <unistd.h>

#include <algorithm>
#include <map>

#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "lib/core/hash.h"
#include "lib/core/terminal/log.h"
#include "lib/engine/weights_file.h"
#include "lib/io/json_file.h"

namespace comera::train {
namespace {

constexpr const char* step_prefix = "step-";
constexpr const char* best_prefix = "best-";
constexpr const char* recipe_name = "recipe.toml";
constexpr const char* checkpoints_name = "checkpoints";

std::string padded(std::int64_t step) { return fmt::format("{:08}", step); }
std::string step_name(std::int64_t step) { return step_prefix + padded(step); }
std::string best_name(std::int64_t step) { return best_prefix + padded(step); }

// Files that a run writes at the top of its folder beside recipe, checkpoints and tokenizer. The program must not
// remove any other file there.
constexpr const char* own_names[] = {"config.json", "model.safetensors", "metrics.jsonl", "report.html", "report.json"};

void save_model(const Folder& folder, const Weights& weights, engine::FileTypes types) {
  save_weights(folder, "model.safetensors", weights, types);
  write_file_atomic(folder, "config.json", weights.model().config_json());
}

// Files replace files; folders are merged.
void move_all(const Folder& from, const Folder& to) {
  for (const std::string& name : from.names()) {
    if (from.kind(name) == EntryKind::folder)
      move_all(from.folder(name), to.make_folder(name));
    else
      from.rename(name, to, name);
  }
  to.sync();
}

using Checksums = std::map<std::string, std::string>;

Checksums checksums_in(const Folder& folder) {
  Checksums checksums;
  for (const std::string& name : folder.names()) checksums[name] = hash_file(folder, name);
  return checksums;
}

void require_checksums(const Folder& folder, const Checksums& wanted) {
  if (wanted.empty()) fail_input("{}: no checksums of its files are known", folder.path());
  for (const auto& [name, checksum] : wanted) {
    if (name.find('/') != std::string::npos)
      fail_input("{}: its state names a file '{}' elsewhere", folder.path(), printable(name));
    if (const std::string found = hash_file(folder, name); found != checksum)
      fail_input("{}: has checksum {}, but {} was written; it was damaged", folder.path_of(name), found, checksum);
  }
}

}  // namespace

RunFolder::RunFolder(std::string path, Open open) : path_(std::move(path)), open_(open) {
  if (path_exists(path_) && !is_folder(path_)) fail_input("[run] {} is a file; name a folder with --output", path_);
  if (is_folder(path_)) open_existing();
}

void RunFolder::open_existing() {
  folder_.emplace(path_);
  if (open_ == Open::fresh) require_empty();
  if (open_ == Open::replace && folder_->kind(recipe_name) == EntryKind::none) require_empty();
  lock_ = std::make_unique<FolderLock>(*folder_);
  require_no_links();  // under the lock, because the run of another process renames and removes checkpoints
  if (open_ == Open::fresh) require_empty();
  if (folder_->kind(checkpoints_name) != EntryKind::none) checkpoints_ = folder_->folder(checkpoints_name);
}

// Ignores the files of a run that was killed at its start.
void RunFolder::require_empty() const {
  for (const std::string& name : folder_->names()) {
    if (name == FolderLock::file_name || is_temporary(name)) continue;
    if (folder_->kind(recipe_name) == EntryKind::none)
      fail_input(
          "[run] {} holds files but no run (no {}), so --resume has nothing to go on with, and --force replaces runs "
          "only; name another folder",
          path_, recipe_name);
    fail_input("[run] {} is not empty; --resume goes on with the run in it, --force replaces it", path_);
  }
}

// A run never creates links. A link would redirect its reads, writes and removals to other places.
void RunFolder::require_no_links() const {
  const auto check = [](const Folder& folder) {
    for (const std::string& name : folder.names())
      if (folder.kind(name) == EntryKind::link)
        fail_input("[run] {}: is a link, and a run folder holds none; replace it by its target", folder.path_of(name));
  };
  check(*folder_);
  if (folder_->kind(checkpoints_name) != EntryKind::folder) return;
  const Folder checkpoints = folder_->folder(checkpoints_name);
  check(checkpoints);
  for (const std::string& name : checkpoints.names())
    if (checkpoints.kind(name) == EntryKind::folder) check(checkpoints.folder(name));
}

RunFolder::~RunFolder() {
  lock_.reset();
  if (made_here_) ::rmdir(path_.c_str());
}

void RunFolder::make() {
  made_here_ = !path_exists(path_);
  make_folders(path_);
  open_ = Open::fresh;  // an unexpected folder of another process must not be resumed
  open_existing();
}

// The recipe always exists: a folder with any file of a run has a recipe to resume from.
void RunFolder::create(const std::optional<std::string>& recipe,
                       const std::function<void(const Folder& folder)>& others) {
  if (!folder_) make();
  remove_leftovers(*folder_);
  const Temporary staged(*folder_, "files", EntryKind::folder);
  const Folder files = staged.folder();
  if (others) others(files);
  if (open_ == Open::replace) remove_run();
  files_ = owned_files(files);
  if (files_.empty()) files_ = files_before();
  if (recipe) save_recipe(*recipe);
  made_here_ = false;
  checkpoints_ = folder_->make_folder(checkpoints_name);
  remove_leftovers(*checkpoints_);
  move_all(files, *folder_);
}

void RunFolder::save_recipe(const std::string& recipe) {
  write_file_atomic(*folder_, recipe_name, recipe + recipe_text(files_));
}

// Files of the existing run, which is resumed or replaced. A damaged recipe lists none.
OwnedFiles RunFolder::files_before() const {
  if (folder_->kind(recipe_name) == EntryKind::none) return {};
  OwnedFiles files;
  try {
    files = recipe_files(read_file(*folder_, recipe_name, io::largest_recipe), recipe_path());
  } catch (const InputError&) {
    files = recipe_files("", recipe_path());
  }
  std::erase_if(files, [&](const auto& file) { return state_of(*folder_, file) == OwnedState::missing; });
  return files;
}

// A folder without them is another model: of other pooling, of other tokens.
void RunFolder::mend(const std::function<void(const Folder& folder)>& others, bool override_changes) {
  OwnedFiles lost = recipe_files(read_file(*folder_, recipe_name, io::largest_recipe), recipe_path());
  std::erase_if(lost, [&](const auto& file) {
    const OwnedState state = file.second.empty() ? OwnedState::whole : state_of(*folder_, file);
    return state == OwnedState::whole || (state == OwnedState::changed && is_document(file.first));
  });
  if (lost.empty()) return;
  remove_leftovers(*folder_);
  const Temporary staged(*folder_, "files", EntryKind::folder);
  const Folder files = staged.folder();
  others(files);
  for (const auto& file : lost) {
    const bool missing = state_of(*folder_, file) == OwnedState::missing;
    const std::string what = fmt::format("{} {}", join_path(path_, printable(file.first)),
                                         missing ? "is missing" : "was changed since the run began");
    if (state_of(files, file) == OwnedState::whole) {
      move_owned(files, *folder_, file.first);
      log_warning("[resume] {}; it is there again from the model that the run began with", what);
      continue;
    }
    if (!override_changes)
      fail_input(
          "[resume] {}, and the model that the run began with does not hold it as it was; put it back, or resume "
          "without it by --override",
          what);
    log_warning("[resume] {}; resuming because of --override", what);
  }
}

// The old recipe stays until the new one replaces it, so that a run killed in between still has the list of its files.
void RunFolder::remove_run() {
  const OwnedFiles files = files_before();
  remove_at_once(*folder_, checkpoints_name);  // an incomplete checkpoint must never look complete
  for (const char* name : own_names) folder_->remove(name);
  remove_owned(*folder_, files);
}

std::string RunFolder::recipe_path() const { return join_path(path_, recipe_name); }
std::string RunFolder::checkpoints_path() const { return join_path(path_, checkpoints_name); }
std::string RunFolder::checkpoint_path(std::int64_t step) const {
  return join_path(checkpoints_path(), step_name(step));
}

Folder RunFolder::checkpoint(const std::string& name) const {
  if (!checkpoints_ || checkpoints_->kind(name) == EntryKind::none)
    fail_input("{}: is missing", join_path(checkpoints_path(), name));
  return checkpoints_->folder(name);
}

std::vector<std::int64_t> RunFolder::numbered(const std::string& prefix) const {
  std::vector<std::int64_t> steps;
  if (!checkpoints_) return steps;
  for (const std::string& name : checkpoints_->names()) {
    if (!name.starts_with(prefix) || checkpoints_->kind(name) != EntryKind::folder) continue;
    const std::optional<std::int64_t> step = parse_integer(name.substr(prefix.size()));
    if (step && prefix + padded(*step) == name) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::vector<std::int64_t> RunFolder::checkpoints() const { return numbered(step_prefix); }

void RunFolder::save(const Weights& weights, TrainState state) {
  AtomicFolder folder(*checkpoints_, step_name(state.step));
  save_model(folder.folder(), weights, engine::FileTypes::memory);
  save_state(folder.folder(), "optimizer.safetensors", weights);
  state.files = checksums_in(folder.folder());
  state.best_files = state.best_step < 0 ? Checksums() : checksums_in(checkpoint(best_name(state.best_step)));
  write_file_atomic(folder.folder(), "state.json", state.to_json());
  folder.commit();
}

TrainState RunFolder::whole_state(std::int64_t step) const {
  const Folder folder = checkpoint(step_name(step));
  const std::string path = folder.path_of("state.json");
  TrainState state = TrainState::from_json(read_file(folder, "state.json", io::largest_state), path);
  if (state.step != step) fail_input("{}: belongs to step {}; it was moved", path, state.step);
  if (!state.with_checksums) {
    log_info("{}: is of an older version, which kept no checksums; its files are taken as they are", folder.path());
    return state;
  }
  require_checksums(folder, state.files);
  if (state.best_step >= 0) require_checksums(checkpoint(best_name(state.best_step)), state.best_files);
  return state;
}

std::optional<TrainState> RunFolder::last_state(bool skip_damaged) const {
  std::vector<std::int64_t> steps = checkpoints();
  while (!steps.empty()) {
    const std::int64_t step = steps.back();
    steps.pop_back();
    try {
      return whole_state(step);
    } catch (const InputError& error) {
      if (steps.empty())
        fail_input("[resume] {}; no checkpoint is left before it: start again with --force", error.what());
      if (!skip_damaged)
        fail_input("[resume] {}; the checkpoint before it is {}: --override goes on from that", error.what(),
                   checkpoint_path(steps.back()));
      log_warning("[resume] {}; looking at {} because of --override", error.what(), checkpoint_path(steps.back()));
    }
  }
  return std::nullopt;
}

void RunFolder::load(std::int64_t step, Weights& weights) const {
  load_weights(join_path(checkpoint_path(step), "model.safetensors"), weights);
  load_state(join_path(checkpoint_path(step), "optimizer.safetensors"), weights);
}

void RunFolder::save_best(const Weights& weights, std::int64_t step) {
  AtomicFolder folder(*checkpoints_, best_name(step));
  save_model(folder.folder(), weights, engine::FileTypes::stored);
  folder.commit();
}

void RunFolder::prune(std::int64_t keep, const TrainState& state) {
  std::vector<std::int64_t> steps = checkpoints();
  for (; !steps.empty() && steps.back() > state.step; steps.pop_back())
    remove_at_once(*checkpoints_, step_name(steps.back()));
  for (std::size_t i = 0; i + static_cast<std::size_t>(keep) < steps.size(); ++i)
    remove_at_once(*checkpoints_, step_name(steps[i]));
  for (std::int64_t step : numbered(best_prefix))
    if (step != state.best_step) remove_at_once(*checkpoints_, best_name(step));
}

void RunFolder::publish(const Weights& weights, const TrainState& state) {
  if (state.best_step < 0) return save_model(*folder_, weights, engine::FileTypes::stored);
  const Folder best = checkpoint(best_name(state.best_step));
  for (const char* name : {"model.safetensors", "config.json"}) copy_file(best, *folder_, name);
}

}  // namespace comera::train
