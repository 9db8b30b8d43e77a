// The files at the top of a run folder that belong to the run: its model and tokenizer. recipe.toml lists them with
// their checksums, so that --force removes them with the run and no file of the user.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "lib/core/files/folder.h"

namespace comera::train {

using OwnedFiles = std::map<std::string, std::string>;  // checksums by relative name; "": any content

OwnedFiles owned_files(const Folder& folder);  // every file in the folder
std::string recipe_text(const OwnedFiles& files);
// For a recipe without such a list (version 0.1.0): the names that every run writes.
OwnedFiles recipe_files(const std::string& recipe, const std::string& file_name);
enum class OwnedState : std::uint8_t { whole, changed, missing };
// `file`: a name and a checksum; no link is followed.
OwnedState state_of(const Folder& folder, const OwnedFiles::value_type& file);
bool is_document(const std::string& name);  // for people alone: README.md, LICENSE
// Moves a file of that relative name between folders and makes its folders.
void move_owned(const Folder& from, const Folder& to, const std::string& name);
// Removes the files that are unchanged, and folders that become empty. Warns about each file that was changed.
void remove_owned(const Folder& folder, const OwnedFiles& files);

}  // namespace comera::train
