#include "tools/reading.h"

#include <algorithm>
#include <iterator>

#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "lib/core/terminal/log.h"
#include "lib/io/json_file.h"
#include "lib/io/modules.h"
#include "lib/train/run_folder.h"
#include "tools/verbs.h"

namespace comera::tools {
namespace {

constexpr const char* names[] = {"text",         "label",        "seq",         "case",
                                 "document-end", "first-length", "whole-words", "mask-probability"};

io::Reading of_recipe(const std::string& text, const std::string& path) {
  const OptionTable table = toml_verb(text, path) == "finetune" ? finetune_table() : pretrain_table();
  OptionValues recipe(table);
  apply_toml(recipe, text, path);
  io::Reading reading;
  for (const char* name : names)
    if (table.find(name) && recipe.has(name)) reading[name] = recipe.canonical(name);
  return reading;
}

// Values of files are checked like those of a command line.
void check(const io::Reading& reading, const std::string& file) {
  const OptionTable table = pretrain_table();
  OptionValues values(table);
  for (const auto& [name, value] : reading) {
    if (std::find(std::begin(names), std::end(names), name) == std::end(names))
      fail_input("{}: comera.reading: {} is no option of reading", file, printable(name));
    values.set(*table.find(name), {value}, OptionSource::fallback, fmt::format("{}: comera.reading: {}", file, name));
  }
}

}  // namespace

io::Reading reading_of(const std::string& model) {
  const std::string recipe = join_path(model, "recipe.toml");
  if (const auto text = train::recipe_of_model(model)) return of_recipe(*text, recipe);
  if (!is_folder(model)) return {};
  const std::string place = io::transformer_place(model);
  const std::string config = join_path(place.empty() ? model : join_path(model, place), "config.json");
  if (!path_exists(config)) return {};
  const auto block = io::parse_comera_block(io::read_json(config, io::largest_config), config);
  if (!block) return {};
  check(block->reading, config);
  return block->reading;
}

}  // namespace comera::tools
