#include "lib/io/side_files.h"

#include <linux/magic.h>
#include <sys/vfs.h>

#include <algorithm>
#include <filesystem>

#include "lib/core/error.h"
#include "lib/core/files/regular_file.h"
#include "lib/core/glob.h"
#include "lib/core/terminal/log.h"
#include "lib/core/units.h"
#include "lib/io/foreign_weights.h"
#include "lib/io/gguf/gguf_tokenizer.h"
#include "lib/io/modules.h"

namespace comera::io {
namespace {

namespace fs = std::filesystem;

// Limits of a copy, because folders may be untrusted and copies are often published.
constexpr int deepest = 8;
constexpr std::size_t most_entries = 1000;
constexpr std::uint64_t most_bytes = std::uint64_t{1} << 30;
constexpr std::size_t most_named = 8;

bool matches_any(const std::string& name, std::initializer_list<const char*> patterns) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const char* pattern) { return glob_match(pattern, name); });
}

bool is_on_top(const std::string& name) { return name.find('/') == std::string::npos; }

// True for files of an earlier run and hidden files. Neither is copied.
bool is_diary(const std::string& name) {
  return matches_any(name, {"recipe.toml", "metrics.jsonl", "report.html", "report.json", "checkpoints/*", ".*", "*/.*",
                            "*.tmp", "*.tmp/*"});
}

// Knows where the transformer lies in the folder and in the copy.
class Places {
 public:
  Places(std::string place, CopyLayout layout)
      : place_(std::move(place)), moves_(layout == CopyLayout::on_top && !place_.empty()) {}

  const std::string& transformer() const { return place_; }
  bool moves() const { return moves_; }
  // True for files that the creator of the new folder writes itself.
  bool is_own(const std::string& name) const { return is_transformers(name) || (moves_ && is_model(name)); }
  bool is_beside_transformer(const std::string& name) const {
    return place_.empty() ? is_on_top(name)
                          : name.starts_with(place_ + "/") && is_on_top(name.substr(place_.size() + 1));
  }

 private:
  static bool is_model(const std::string& name) {
    return is_on_top(name) && name != "categories.safetensors" &&  // no weights: the map of a model of clicks
           matches_any(name, {"config.json", "*.safetensors", "*.safetensors.index.json"});
  }
  // True for the transformer's own model files, not for those of other modules.
  bool is_transformers(const std::string& name) const {
    return is_beside_transformer(name) && is_model(place_.empty() ? name : name.substr(place_.size() + 1));
  }

  std::string place_;
  bool moves_;
};

// Finds the links that lead to files of others: a copy of such a target would publish what the folder never held.
class Links {
 public:
  explicit Links(const std::string& root) : root_(canonical(root)) {}

  // Returns the target of the link if it is neither in the folder nor in a cache of the hub, else "".
  std::string foreign_target(const std::string& path) const {
    const fs::path target = canonical(path);
    if (target.empty()) return "a file that cannot be found";
    if (!is_of_system(target) && (is_below(target, root_) || is_blob(target))) return "";
    return target.string();
  }

 private:
  static fs::path canonical(const std::string& path) {
    std::error_code error;
    return fs::canonical(path, error);
  }
  static bool is_below(const fs::path& path, const fs::path& folder) {
    return !folder.empty() &&
           std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first == folder.end();
  }
  // models--NAME/snapshots/REVISION/file links to models--NAME/blobs/HASH.
  static bool is_blob(const fs::path& target) {
    const fs::path blobs = target.parent_path();
    return blobs.filename() == "blobs" && is_folder((blobs.parent_path() / "snapshots").string());
  }
  // True for procfs and sysfs. Their files tell of this process and this machine.
  static bool is_of_system(const fs::path& target) {
    struct statfs status {};
    return ::statfs(target.c_str(), &status) == 0 &&
           (status.f_type == PROC_SUPER_MAGIC || status.f_type == SYSFS_MAGIC);
  }

  fs::path root_;
};

// Collects the names of the regular files below a folder, including links to such files. Links to folders are not
// followed: they may lead out of the folder or form a cycle. The files of a folder come before those of its
// sub-folders, and modules before other sub-folders, so that a limit cuts off what the model needs least.
class Collector {
 public:
  Collector(const std::string& root, const Places& places, SkippedFiles& skipped)
      : root_(root), links_(root), places_(places), skipped_(skipped) {
    for (const Module& module : read_modules(root)) modules_.push_back(module.path);
    collect("", 0);
  }
  std::vector<std::string> take() { return std::move(names_); }

 private:
  void collect(const std::string& below, int depth) {
    std::vector<std::string> folders;
    for (const std::string& name : list_folder(join_path(root_, below)))
      if (const std::string relative = join_path(below, name); !is_diary(relative) && !places_.is_own(relative))
        if (add(relative, depth)) folders.push_back(relative);
    std::stable_partition(folders.begin(), folders.end(), [&](const std::string& folder) { return is_module(folder); });
    for (const std::string& folder : folders) {
      if (is_full())
        skipped_.emplace_back(folder, "a folder beyond a thousand files");
      else
        collect(folder, depth + 1);
    }
  }

  // Returns true for a folder to collect from.
  bool add(const std::string& relative, int depth) {
    const std::string path = join_path(root_, relative);
    const PathKind kind = kind_of(path);
    if (kind == PathKind::folder && depth < deepest) return true;
    if (kind != PathKind::file && kind != PathKind::linked_file) {
      skipped_.emplace_back(relative, kind == PathKind::folder ? "deeper than eight folders" : name_of(kind));
    } else if (is_full()) {
      skipped_.emplace_back(relative, "more than a thousand files");
    } else if (const std::string target = kind == PathKind::file ? "" : links_.foreign_target(path); !target.empty()) {
      skipped_.emplace_back(relative, fmt::format("a link to {}, which is not of this model; copy the file into the "
                                                  "folder if it belongs to it",
                                                  printable(target)));
    } else {
      names_.push_back(relative);
    }
    return false;
  }

  bool is_full() const { return names_.size() >= most_entries; }
  bool is_module(const std::string& folder) const {
    return std::any_of(modules_.begin(), modules_.end(),
                       [&](const std::string& module) { return module == folder || module.starts_with(folder + "/"); });
  }

  std::string root_;
  Links links_;
  const Places& places_;
  SkippedFiles& skipped_;
  std::vector<std::string> modules_, names_;
};

// Maps the side files of a folder to their names in the copy. The name is "" for files that are left out.
class SideFiles {
 public:
  SideFiles(const std::string& from, CopyLayout layout, SkippedFiles& skipped)
      : places_(transformer_place(from), layout), names_(Collector(from, places_, skipped).take()) {}

  const std::vector<std::string>& names() const { return names_; }
  bool moves() const { return places_.moves(); }
  std::string target_of(const std::string& name) const {
    const std::string& place = places_.transformer();
    if (!moves()) return name;
    if (places_.is_beside_transformer(name)) return name.substr(place.size() + 1);
    // If two files have the same name, the transformer's file is used.
    return is_on_top(name) && std::find(names_.begin(), names_.end(), join_path(place, name)) != names_.end() ? ""
                                                                                                              : name;
  }

 private:
  Places places_;
  std::vector<std::string> names_;
};

void warn(const std::string& folder, const SkippedFiles& skipped) {
  for (std::size_t i = 0; i < std::min(skipped.size(), most_named); ++i)
    log_warning("{}: not copied: {}", printable(join_path(folder, skipped[i].first)), skipped[i].second);
  if (skipped.size() > most_named)
    log_warning("{}: {} more files, folders or links are not copied", printable(folder), skipped.size() - most_named);
}

// Returns the folder below `top` for a file with this relative name. Creates missing folders.
Folder folder_for(const Folder& top, const std::string& name) {
  Folder folder = top;
  std::size_t start = 0;
  for (std::size_t slash; (slash = name.find('/', start)) != std::string::npos; start = slash + 1)
    folder = folder.make_folder(name.substr(start, slash - start));
  return folder;
}

CopiedFiles write_gguf_tokenizer(const std::string& path, const Folder& to, CopyOver over) {
  const GgufFile file(path);
  GgufTokenizerFiles texts;
  try {
    texts = gguf_tokenizer_files(file);
  } catch (const InputError& error) {
    log_warning("{}: has no tokenizer that is copied: {}", path, error.what());
    return {};
  }
  CopiedFiles result;
  for (const auto& [name, text] :
       {std::pair{texts.name, &texts.tokenizer}, {std::string("tokenizer_config.json"), &texts.config}}) {
    if (over == CopyOver::keep && to.kind(name) != EntryKind::none) continue;
    write_file_atomic(to, name, *text);
    result.copied.emplace_back(name);
  }
  return result;
}

}  // namespace

CopiedFiles copy_side_files(const std::string& from, const Folder& to, CopyLayout layout, CopyOver over,
                            SkippedFiles& skipped) {
  if (is_gguf_file(from)) return write_gguf_tokenizer(from, to, over);
  CopiedFiles result;
  const SideFiles files(from, layout, skipped);
  std::uint64_t room = most_bytes;
  for (const std::string& name : files.names()) {
    if (is_foreign_weights(name)) {
      result.left_out.push_back(name);
      continue;
    }
    const std::string target = files.target_of(name);
    if (target.empty()) continue;
    const std::string source = join_path(from, name), file = base_name(target);
    const Folder place = folder_for(to, target);
    if (over == CopyOver::keep && place.kind(file) != EntryKind::none) continue;
    const std::uint64_t bytes = file_size(source);
    if (bytes > room) {
      skipped.emplace_back(name, fmt::format("all files together would be larger than {}", format_bytes(most_bytes)));
      continue;
    }
    room -= bytes;
    if (files.moves() && name == "modules.json")
      write_file_atomic(place, file, with_transformer_on_top(read_file(source, bytes), source));
    else
      copy_file(source, place, file);
    result.copied.push_back(name);
  }
  warn(from, skipped);
  return result;
}

std::vector<std::string> side_file_names(const std::string& from) {
  if (is_gguf_file(from)) return {"tokenizer.json", "tokenizer.model", "tokenizer_config.json"};
  std::vector<std::string> names;
  SkippedFiles skipped;
  for (const CopyLayout layout : {CopyLayout::same, CopyLayout::on_top}) {
    const SideFiles files(from, layout, skipped);
    for (const std::string& name : files.names())
      if (const std::string target = files.target_of(name); !target.empty()) names.push_back(target);
  }
  return names;
}

CopiedFiles copy_side_files(const std::string& from, const std::string& to, CopyLayout layout) {
  SkippedFiles skipped;
  return copy_side_files(from, Folder::made(to), layout, CopyOver::replace, skipped);
}

}  // namespace comera::io
