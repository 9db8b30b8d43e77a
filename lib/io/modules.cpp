#include "lib/io/modules.h"

#include <algorithm>
#include <filesystem>

#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "lib/core/terminal/log.h"
#include "lib/io/json.h"

namespace comera::io {
namespace {

constexpr std::uint64_t largest_file = 1 << 20;
constexpr const char* modules_name = "modules.json";

bool is_transformer(const Module& module) { return module.kind() == "Transformer"; }

// Returns "" if the key is absent.
std::string text_of(const Json& module, const char* key, const std::string& file_name) {
  const auto found = module.is_object() ? module.find(key) : module.end();
  if (!module.is_object() || found == module.end()) return "";
  if (!found->is_string())
    fail_input("{}: the {} of a module is {}; it must be text", file_name, key, printable(found->dump()));
  return found->get<std::string>();
}

Module module_of(const Json& json, const std::string& file_name) {
  Module module{text_of(json, "type", file_name), text_of(json, "path", file_name)};
  const std::string said = module.path;
  if (module.path == ".") module.path.clear();
  if (module.path.size() > 1 && module.path.ends_with('/')) module.path.pop_back();
  if (!module.path.empty() && !is_inside(module.path))
    fail_input("{}: the path '{}' of module '{}' leaves the folder; it must be the name of a folder in it", file_name,
               printable(said), printable(module.type));
  return module;
}

Json read_list(std::string_view text, const std::string& file_name) {
  Json list = parse_json(text, file_name);
  if (!list.is_array()) fail_input("{}: is not a list of modules", file_name);
  return list;
}

}  // namespace

std::vector<Module> parse_modules(std::string_view text, const std::string& file_name) {
  std::vector<Module> modules;
  for (const Json& json : read_list(text, file_name)) modules.push_back(module_of(json, file_name));
  if (std::count_if(modules.begin(), modules.end(), is_transformer) > 1)
    fail_input("{}: names more than one transformer; models of one are supported", file_name);
  return modules;
}

std::vector<Module> read_modules(const std::string& folder) {
  const std::string path = join_path(folder, modules_name);
  return path_exists(path) ? parse_modules(read_file(path, largest_file), path) : std::vector<Module>();
}

std::string module_folder(const std::string& folder, const Module& module) {
  if (module.path.empty()) return folder;
  std::string place = join_path(folder, module.path);
  const std::string file = join_path(folder, modules_name);
  if (!is_folder(place))
    fail_input("{}: module '{}' lies in '{}', which is no folder of {}; fetch the model again", file,
               printable(module.type), printable(module.path), folder);
  namespace fs = std::filesystem;
  const fs::path root = fs::weakly_canonical(folder), real = fs::weakly_canonical(place);
  if (std::mismatch(root.begin(), root.end(), real.begin(), real.end()).first != root.end())
    fail_input("{}: the path '{}' of module '{}' is a link that leaves the folder; put the files there themselves",
               file, printable(module.path), printable(module.type));
  return place;
}

std::string transformer_place(const std::string& folder) {
  const std::vector<Module> modules = read_modules(folder);
  const auto found = std::find_if(modules.begin(), modules.end(), is_transformer);
  if (found == modules.end()) return "";
  module_folder(folder, *found);
  return found->path;
}

std::string with_transformer_on_top(std::string_view text, const std::string& file_name) {
  Json list = read_list(text, file_name);
  for (Json& json : list)
    if (is_transformer(module_of(json, file_name))) json["path"] = "";
  return json_text(list);
}

}  // namespace comera::io
