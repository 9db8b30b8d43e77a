// The files at the top of a run folder that belong to the run: its model and tokenizer. recipe.toml lists them with
// their checksums, so that --force removes them with the run and no file of the user.
#pragma once

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
// Removes the files that are unchanged, and folders that become empty. Warns about each file that was changed.
void remove_owned(const Folder& folder, const OwnedFiles& files);

}  // namespace comera::train
