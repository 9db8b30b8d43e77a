// modules.json of sentence-transformers: the modules of a model folder and their sub-folders.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace comera::io {

struct Module {
  std::string type;  // as in the file: sentence_transformers.models.Pooling
  std::string path;  // relative; "": the folder itself
  std::string kind() const { return type.substr(type.rfind('.') + 1); }
};

// InputError for no list of modules, a path that is no text or leaves the folder, or more than one transformer.
std::vector<Module> parse_modules(std::string_view text, const std::string& file_name);
// Returns an empty list if the folder has no modules.json.
std::vector<Module> read_modules(const std::string& folder);

// The folder of a module. InputError if it does not exist or is a link that leads out of `folder`.
std::string module_folder(const std::string& folder, const Module& module);

// The sub-folder of `folder` with the transformer's config.json, weights and tokenizer. It is "" (the folder itself)
// unless modules.json gives another path. InputError as above.
std::string transformer_place(const std::string& folder);

// Rewrites modules.json for a folder with the transformer in the folder itself.
std::string with_transformer_on_top(std::string_view text, const std::string& file_name);

}  // namespace comera::io
