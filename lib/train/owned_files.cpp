#include "lib/train/owned_files.h"

#include <fcntl.h>

#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "lib/core/hash.h"
#include "lib/core/options/options.h"
#include "lib/core/terminal/log.h"

namespace comera::train {
namespace {

constexpr const char* table_name = "files";
constexpr const char* names_of_old_runs[] = {"vocab.txt", "tokenizer.model", "tokenizer_config.json", "modules.json"};

bool is_plain(char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\' && c != '%'; }

// File names are arbitrary bytes, but TOML is UTF-8.
std::string escaped(const std::string& name) {
  std::string text;
  for (const char c : name)
    text += is_plain(c) ? std::string(1, c) : fmt::format("%{:02x}", static_cast<unsigned char>(c));
  return text;
}

std::string unescaped(const std::string& text) {
  std::string name;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%' || i + 2 >= text.size()) {
      name += text[i];
      continue;
    }
    name += static_cast<char>(std::strtol(text.substr(i + 1, 2).c_str(), nullptr, 16));
    i += 2;
  }
  return name;
}

void collect(const Folder& folder, const std::string& below, OwnedFiles& files) {
  for (const std::string& name : folder.names()) {
    if (folder.kind(name) == EntryKind::folder)
      collect(folder.folder(name), join_path(below, name), files);
    else
      files[join_path(below, name)] = hash_file(folder, name);
  }
}

void remove_one(const Folder& folder, const std::string& name, const std::string& checksum) {
  const std::size_t slash = name.find('/');
  if (slash != std::string::npos) {
    const std::string first = name.substr(0, slash);
    if (folder.kind(first) != EntryKind::folder) return;
    const Folder inside = folder.folder(first);
    remove_one(inside, name.substr(slash + 1), checksum);
    if (inside.names().empty()) folder.remove(first);
    return;
  }
  if (folder.kind(name) != EntryKind::file) return;
  if (checksum.empty() || hash_file(folder, name) == checksum) return folder.remove(name);
  log_warning("{}: was changed since the run that is replaced wrote it; it stays", printable(folder.path_of(name)));
}

}  // namespace

OwnedFiles owned_files(const Folder& folder) {
  OwnedFiles files;
  collect(folder, "", files);
  return files;
}

std::string recipe_text(const OwnedFiles& files) {
  std::string text =
      files.empty()
          ? ""
          : "\n# of the model and the tokenizer, with their checksums: --force removes them with the run\n[files]\n";
  for (const auto& [name, checksum] : files) text += fmt::format("\"{}\" = \"{}\"\n", escaped(name), checksum);
  return text;
}

OwnedFiles recipe_files(const std::string& recipe, const std::string& file_name) {
  OwnedFiles files;
  for (const auto& [name, checksum] : toml_texts(recipe, file_name, table_name)) files[unescaped(name)] = checksum;
  if (files.empty())
    for (const char* name : names_of_old_runs) files[name] = "";
  return files;
}

OwnedState state_of(const Folder& folder, const OwnedFiles::value_type& file) {
  const auto& [name, checksum] = file;
  if (!is_inside(name)) return OwnedState::missing;
  if (const std::size_t slash = name.find('/'); slash != std::string::npos) {
    const std::string first = name.substr(0, slash);
    if (folder.kind(first) != EntryKind::folder) return OwnedState::missing;
    return state_of(folder.folder(first), {name.substr(slash + 1), checksum});
  }
  if (folder.kind(name) != EntryKind::file) return OwnedState::missing;
  return checksum.empty() || hash_file(folder, name) == checksum ? OwnedState::whole : OwnedState::changed;
}

bool is_document(const std::string& name) {
  const std::string file = base_name(name);
  return file.ends_with(".md") || file.starts_with("LICENSE") || file.starts_with("NOTICE");
}

void move_owned(const Folder& from, const Folder& to, const std::string& name) {
  const std::size_t slash = name.find('/');
  if (slash == std::string::npos) return from.rename(name, to, name);
  const std::string first = name.substr(0, slash);
  move_owned(from.folder(first), to.make_folder(first), name.substr(slash + 1));
}

void remove_owned(const Folder& folder, const OwnedFiles& files) {
  for (const auto& [name, checksum] : files)
    if (is_inside(name)) remove_one(folder, name, checksum);
}

}  // namespace comera::train
