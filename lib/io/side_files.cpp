#include "lib/io/side_files.h"

#include <algorithm>

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

// Maps the side files of a folder to their names in the copy. The name is "" for files that the creator of the new
// folder writes itself, and for files that are left out.
class SideFiles {
 public:
  SideFiles(std::vector<std::string> names, std::string place, CopyLayout layout)
      : names_(std::move(names)), place_(std::move(place)), moves_(layout == CopyLayout::on_top && !place_.empty()) {}

  const std::vector<std::string>& names() const { return names_; }
  bool moves() const { return moves_; }
  std::string target_of(const std::string& name) const {
    if (is_diary(name) || is_transformers(name) || (moves_ && is_model(name))) return "";
    if (!moves_) return name;
    if (is_beside_transformer(name)) return name.substr(place_.size() + 1);
    // If two files have the same name, the transformer's file is used.
    return is_on_top(name) && std::find(names_.begin(), names_.end(), join_path(place_, name)) != names_.end() ? ""
                                                                                                               : name;
  }

 private:
  static bool is_model(const std::string& name) {
    return is_on_top(name) && name != "categories.safetensors" &&  // no weights: the map of a model of clicks
           matches_any(name, {"config.json", "*.safetensors", "*.safetensors.index.json"});
  }
  bool is_beside_transformer(const std::string& name) const {
    return place_.empty() ? is_on_top(name)
                          : name.starts_with(place_ + "/") && is_on_top(name.substr(place_.size() + 1));
  }
  // True for the transformer's own model files, not for those of other modules.
  bool is_transformers(const std::string& name) const {
    return is_beside_transformer(name) && is_model(place_.empty() ? name : name.substr(place_.size() + 1));
  }

  std::vector<std::string> names_;
  std::string place_;
  bool moves_;
};

// Collects the names of the regular files below a folder, including links to such files. Links to folders are not
// followed: they may lead out of the folder or form a cycle.
class Collector {
 public:
  Collector(const std::string& root, SkippedFiles& skipped) : root_(root), skipped_(skipped) { collect("", 0); }
  std::vector<std::string> take() { return std::move(names_); }

 private:
  void collect(const std::string& below, int depth) {
    for (const std::string& name : list_folder(join_path(root_, below))) {
      const std::string relative = join_path(below, name);
      const PathKind kind = kind_of(join_path(root_, relative));
      if (is_diary(relative)) continue;
      if (kind == PathKind::folder && depth < deepest) {
        collect(relative, depth + 1);
      } else if (kind != PathKind::file && kind != PathKind::linked_file) {
        skipped_.emplace_back(relative, kind == PathKind::folder ? "deeper than eight folders" : name_of(kind));
      } else if (names_.size() == most_entries) {
        skipped_.emplace_back(relative, "more than a thousand files");
        return;
      } else {
        names_.push_back(relative);
      }
      if (skipped_.size() > most_entries) return;
    }
  }

  std::string root_;
  SkippedFiles& skipped_;
  std::vector<std::string> names_;
};

void warn(const std::string& folder, const SkippedFiles& skipped) {
  for (std::size_t i = 0; i < std::min(skipped.size(), most_named); ++i)
    log_warning("{}: not copied: {}", printable(join_path(folder, skipped[i].first)), skipped[i].second);
  if (skipped.size() > most_named)
    log_warning("{}: {} more files or links are not copied", printable(folder), skipped.size() - most_named);
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
  const SideFiles files(Collector(from, skipped).take(), transformer_place(from), layout);
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
  const std::vector<std::string> found = Collector(from, skipped).take();
  for (const CopyLayout layout : {CopyLayout::same, CopyLayout::on_top}) {
    const SideFiles files(found, transformer_place(from), layout);
    for (const std::string& name : found)
      if (const std::string target = files.target_of(name); !target.empty()) names.push_back(target);
  }
  return names;
}

CopiedFiles copy_side_files(const std::string& from, const std::string& to, CopyLayout layout) {
  SkippedFiles skipped;
  return copy_side_files(from, Folder::made(to), layout, CopyOver::replace, skipped);
}

}  // namespace comera::io
