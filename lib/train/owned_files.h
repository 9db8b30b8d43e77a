// The files at the top of a run folder that the run has from its model and tokenizer. recipe.toml lists them with their
// checksums, so that
// --force removes them with the run, and nothing of the user's.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "lib/core/folder.h"

namespace comera::train {

using OwnedFiles = std::map<std::string, std::string>;  // checksums by relative name; "" : whatever it holds

OwnedFiles owned_files(const Folder& folder);  // every file in it
std::string recipe_text(const OwnedFiles& files);
// Of a recipe without such a list (version 0.1.0) the names that every run writes.
OwnedFiles recipe_files(const std::string& recipe, const std::string& file_name);
// Those that are as they were written, and folders that become empty. A warning names each one that was changed since.
void remove_owned(const Folder& folder, const OwnedFiles& files);

}  // namespace comera::train
