#include "lib/core/files/outputs.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "lib/core/files/folder_lock.h"
#include "lib/core/glob.h"

namespace comera {
namespace {

using Path = std::filesystem::path;

// The target of a path after all links are resolved.
struct Resolved {
  Path path;  // absolute; the missing part of a path is kept as it was given
  struct stat status {};
  bool there = false, looked_at = true;
};

bool same(const struct stat& a, const struct stat& b) { return a.st_dev == b.st_dev && a.st_ino == b.st_ino; }
bool same(const Resolved& a, const Resolved& b) {
  return a.path == b.path || (a.there && b.there && same(a.status, b.status));
}

// Follows a link whose target does not exist yet. std::filesystem would return the link itself.
Path behind_links(Path path) {
  constexpr int most = 40;  // the system's own limit
  std::error_code error;
  for (int i = 0; i < most && std::filesystem::is_symlink(path, error) && !std::filesystem::exists(path, error); ++i)
    path = path.parent_path() / std::filesystem::read_symlink(path, error);
  return path;
}

Resolved resolved(const Path& given) {
  std::error_code error;
  Resolved result;
  const Path path = behind_links(std::filesystem::absolute(given, error));
  result.path = std::filesystem::weakly_canonical(path, error);
  if (error) result.path = std::filesystem::absolute(path, error).lexically_normal();
  if (!result.path.has_filename() && result.path.has_relative_path())
    result.path = result.path.parent_path();  // for "folder/"
  result.there = ::stat(path.c_str(), &result.status) == 0;
  result.looked_at = !result.there || S_ISREG(result.status.st_mode) || S_ISDIR(result.status.st_mode);
  return result;
}

// Compares the device and inode of each parent folder, because one folder may have several paths (links, mounts).
bool lies_in(const Resolved& inner, const Resolved& outer) {
  if (outer.there && !S_ISDIR(outer.status.st_mode)) return false;
  struct stat status {};
  for (Path above = inner.path.parent_path(), last = inner.path; above != last;
       last = above, above = above.parent_path())
    if (above == outer.path || (outer.there && ::stat(above.c_str(), &status) == 0 && same(status, outer.status)))
      return true;
  return false;
}

const char* relation(const Resolved& output, const Resolved& input) {
  if (same(output, input)) return "is";
  if (lies_in(input, output)) return "holds";
  return lies_in(output, input) ? "lies in" : nullptr;
}

// A file of the folder `input` that is `output` under another name, as in caches of the hub, whose folders hold links
// to files elsewhere; "" if there is none. Links to folders are not followed, because nothing is read behind them.
std::string shared_file(const Resolved& input, const Resolved& output) {
  constexpr int most = 10'000;
  if (!input.there || !S_ISDIR(input.status.st_mode) || !output.there || !S_ISREG(output.status.st_mode)) return "";
  std::error_code error;
  std::filesystem::recursive_directory_iterator entry(input.path, error), end;
  for (int i = 0; i < most && !error && entry != end; ++i, entry.increment(error)) {
    struct stat status {};
    if (::stat(entry->path().c_str(), &status) == 0 && same(status, output.status)) return entry->path().string();
  }
  return "";
}

// Files that match a pattern. A missing path is returned as it is; its reader reports the error.
std::vector<std::string> files_of(const std::string& text) {
  try {
    return glob_files(text);
  } catch (const InputError&) {
    return {text};
  }
}

void check_pair(const std::string& verb, const NamedPath& output, const Resolved& written, const NamedPath& input) {
  const Resolved read = resolved(input.path);
  if (!read.looked_at) return;
  if (const char* how = relation(written, read))
    fail_input("[{}] {} {}: {} {} {}, which would be lost or changed; name another place", verb, output.name,
               output.path, how, input.name, input.path);
  if (const std::string file = shared_file(read, written); !file.empty())
    fail_input("[{}] {} {}: is a file of {} {}, which has it as {}, and would be lost or changed; name another place",
               verb, output.name, output.path, input.name, input.path, file);
}

std::optional<FileUse> use_of(const Option& option) {
  if (option.files != FileUse::by_type) return option.files;
  return option.type == OptionType::path ? std::optional(FileUse::read) : std::nullopt;
}

}  // namespace

void check_outputs(const std::string& verb, const std::vector<NamedPath>& inputs,
                   const std::vector<NamedPath>& outputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Resolved written = resolved(outputs[i].path);
    if (!written.looked_at) continue;
    refuse_locked_above(written.path.string());
    for (const NamedPath& input : inputs) check_pair(verb, outputs[i], written, input);
    for (std::size_t j = 0; j < i; ++j)
      if (same(resolved(outputs[j].path), written))
        fail_input("[{}] {} and {} both name {}; name two places", verb, outputs[j].name, outputs[i].name,
                   outputs[i].path);
  }
}

NamedFiles named_files(const OptionValues& values) {
  NamedFiles files;
  // Positionals come first. A verb may store them in options too, and errors must use the name that the user typed.
  const auto& positionals = values.table().positionals();
  for (std::size_t i = 0; i < values.positionals().size() && !positionals.empty(); ++i)
    files.inputs.push_back({positionals[std::min(i, positionals.size() - 1)].name, values.positionals()[i]});
  for (const Option& option : values.table().options()) {
    const std::optional<FileUse> use = use_of(option);
    if (!use || !values.has(option.name)) continue;
    const std::string name = fmt::format("--{}", option.name);
    if (*use == FileUse::written) {
      files.outputs.push_back({name, values.text(option.name)});
    } else if (option.type == OptionType::list) {
      for (const std::string& text : values.list(option.name))
        for (std::string& file : files_of(text)) files.inputs.push_back({name, std::move(file)});
    } else {
      files.inputs.push_back({name, values.text(option.name)});
    }
  }
  struct stat status {};
  if (::fstat(0, &status) == 0 && S_ISREG(status.st_mode)) files.inputs.push_back({"stdin", "/dev/stdin"});
  return files;
}

void check_outputs(const OptionValues& values) {
  const NamedFiles files = named_files(values);
  if (!files.outputs.empty()) check_outputs(values.table().verb(), files.inputs, files.outputs);
}

}  // namespace comera
