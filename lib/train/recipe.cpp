// Writes and reads the recipe of a run, and checks the options that must not change on resume.
#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "lib/core/terminal/log.h"
#include "lib/io/json_file.h"
#include "lib/train/run_folder.h"
#include "lib/tuning/path_choices.h"

namespace comera::train {
namespace {

void refuse_or_warn(bool override_changes, const std::string& what) {
  if (!override_changes) fail_input("[resume] {}; --override resumes anyway", what);
  log_warning("[resume] {}; resuming because of --override", what);
}

}  // namespace

std::string recipe_text(const OptionValues& values, const RecipeHashes& hashes) {
  return to_toml(values) + fmt::format("\n[hashes]\ndata = \"{}\"\ndev = \"{}\"\ntokenizer = \"{}\"\n", hashes.data,
                                       hashes.dev, hashes.tokenizer);
}

std::string recipe_text(const plan::PathTable& paths) {
  std::string text = paths.empty() ? "" : "\n# measured on the device\n[paths]\n";
  for (const auto& [call, path] : paths) text += fmt::format("\"{}\" = \"{}\"\n", call, tuning::name_of(path));
  return text;
}

plan::PathTable recipe_paths(const std::string& recipe, const std::string& file_name) {
  return tuning::parse_paths(toml_texts(recipe, file_name, "paths"), file_name);
}

std::optional<std::string> read_recipe(const std::string& folder) {
  const std::string path = join_path(folder, "recipe.toml");
  if (!path_exists(path)) return std::nullopt;
  return read_file(path, io::largest_recipe);
}

std::optional<std::string> recipe_of_model(const std::string& folder) {
  std::optional<std::string> recipe = read_recipe(folder);
  const std::string path = join_path(folder, "recipe.toml");
  if (!recipe || !toml_verb(*recipe, path).empty()) return recipe;
  recipe_hashes(*recipe, path);  // refuses what is no TOML, such as a damaged recipe
  return std::nullopt;
}

RecipeHashes recipe_hashes(const std::string& recipe, const std::string& file_name) {
  std::map<std::string, std::string> hashes = toml_texts(recipe, file_name, "hashes");
  return {hashes["data"], hashes["dev"], hashes["tokenizer"]};
}

void check_resume(const OptionValues& before, const OptionValues& now, bool override_changes) {
  std::string changes;
  for (const std::string& name : changed_options(before, now))
    changes += fmt::format("{}--{} was {} and is {}", changes.empty() ? "" : ", ", name,
                           before.has(name) ? before.canonical(name) : "not set",
                           now.has(name) ? now.canonical(name) : "not set");
  if (!changes.empty())
    refuse_or_warn(override_changes, "options that change the result differ from the run's: " + changes);
}

void check_resume(const RecipeHashes& before, const RecipeHashes& now, bool override_changes) {
  const auto check = [&](const char* what, const std::string& old_hash, const std::string& new_hash) {
    if (old_hash != new_hash)
      refuse_or_warn(override_changes, fmt::format("the {} changed since the run began (hash {} then, {} now)", what,
                                                   old_hash, new_hash));
  };
  check("training data", before.data, now.data);
  check("dev data", before.dev, now.dev);
  check("tokenizer", before.tokenizer, now.tokenizer);
}

}  // namespace comera::train
