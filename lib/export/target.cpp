#include "lib/export/target.h"

#include <algorithm>
#include <set>
#include <vector>

#include "lib/core/error.h"
#include "lib/core/files/folder_lock.h"
#include "lib/core/files/regular_file.h"
#include "lib/core/glob.h"
#include "lib/core/join.h"
#include "lib/core/terminal/log.h"
#include "lib/core/terminal/stop.h"
#include "lib/io/model_folder.h"
#include "lib/io/modules.h"
#include "lib/io/onnx_files.h"

namespace comera::exporting {
namespace {

constexpr int deepest = 16;
constexpr std::size_t most_files = 10'000;
constexpr std::size_t most_named = 3;

// Relative names below a folder: regular files, and everything else that is no folder of such files.
struct Contents {
  std::vector<std::string> files, others;

  void collect(const std::string& root, const std::string& below = "", int depth = 0) {
    for (const std::string& name : list_folder(join_path(root, below))) {
      const std::string relative = join_path(below, name);
      const PathKind kind = kind_of(join_path(root, relative));
      if (kind == PathKind::folder && depth < deepest)
        collect(root, relative, depth + 1);
      else if (kind == PathKind::file && files.size() < most_files)
        files.push_back(relative);
      else if (others.size() < most_named)
        others.push_back(kind == PathKind::file ? relative : fmt::format("{} ({})", relative, name_of(kind)));
    }
  }
};

bool is_weights(const std::string& file) {
  const auto patterns = {"model.safetensors", "model-*-of-*.safetensors", "model.safetensors.index.json", "model.onnx",
                         "model.onnx.data",   "adapter_config.json",      "adapter_model.safetensors"};
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const char* pattern) { return glob_match(pattern, base_name(file)); });
}

// Files of `folder` that an export writes neither as weights nor as one of `written`.
std::vector<std::string> foreign_files(const std::string& folder, const std::set<std::string>& written) {
  Contents contents;
  contents.collect(folder);
  const std::string place = io::transformer_place(folder);
  const std::string config = join_path(place, "config.json");
  std::vector<std::string> foreign = contents.others;
  bool weights = false;
  for (const std::string& file : contents.files) {
    const std::string in = file == base_name(file) ? "" : parent_path(file);
    const bool model = is_weights(file) && (in.empty() || in == place || in == "adapter");
    weights = weights || model;
    if (!model && file != config && !written.contains(file)) foreign.push_back(file);
  }
  if (!weights && foreign.empty()) foreign = contents.files;  // config.json of another program
  return foreign;
}

void require_replaceable(const std::string& folder, const std::set<std::string>& written) {
  std::vector<std::string> foreign = foreign_files(folder, written);
  if (foreign.empty()) return;
  const std::size_t more = foreign.size() - std::min(foreign.size(), most_named);
  foreign.resize(foreign.size() - more);
  for (std::string& name : foreign) name = printable(name);
  fail_input(
      "[export] {}: holds {}{}, which this export would not make again as it is, so --force does not replace the "
      "folder; name "
      "another one, or move the files first",
      folder, join(foreign, ", "), more > 0 ? fmt::format(" and {} more files", more) : "");
}

}  // namespace

void finish(AtomicFolder& made, const Target& target) {
  check_stop();
  if (!target.force) return made.commit_new();
  if (is_folder(target.path)) {
    Contents contents;
    contents.collect(made.temporary());
    require_replaceable(target.path, {contents.files.begin(), contents.files.end()});
  }
  made.commit();
}

void check_target(const Target& target, const std::string& source) {
  if (target.is_onnx()) io::remove_half_onnx(target.path);
  if (target.is_onnx() && !target.force) io::require_free_data("export", target.path);
  if (!path_exists(target.path)) return;
  const bool folder = is_folder(target.path);
  if (folder) refuse_locked(Folder(target.path));
  if (!target.is_file() && folder && is_empty_folder(target.path)) return;
  if (!target.force) fail_input("[export] {}: exists already; use another name, or --force to replace it", target.path);
  if (folder == target.is_file())
    fail_input("[export] {}: is not what an export leaves, so --force does not replace it; name another {}",
               target.path, folder ? "folder" : "file");
  const PathKind kind = kind_of(target.path);
  if (!folder && kind != PathKind::file && kind != PathKind::linked_file)
    fail_input("[export] {}: is {}, which --force does not replace; name another file", target.path, name_of(kind));
  if (!folder) return;
  const std::vector<std::string> names = io::side_file_names(source);
  require_replaceable(target.path, {names.begin(), names.end()});
}

}  // namespace comera::exporting
