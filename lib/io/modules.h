// modules.json of sentence-transformers: the parts that a model folder consists of, and where in it they lie.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace comera::io {

struct Module {
  std::string type;  // as the file has it: sentence_transformers.models.Pooling
  std::string path;  // relative; "": the folder itself
  std::string kind() const { return type.substr(type.rfind('.') + 1); }
};

// InputError: no list of modules, a path that is no text or leaves the folder, more than one transformer.
std::vector<Module> parse_modules(std::string_view text, const std::string& file_name);
// None where the folder has no modules.json.
std::vector<Module> read_modules(const std::string& folder);

// The folder of a module. InputError: it is not there, or a link leads out of `folder`.
std::string module_folder(const std::string& folder, const Module& module);

// Where in `folder` the transformer's config.json, weights and tokenizer lie; "": in the folder itself, as everywhere
// but in folders whose modules.json says otherwise. InputError as above.
std::string transformer_place(const std::string& folder);

// modules.json of a folder whose transformer lies in the folder itself.
std::string with_transformer_on_top(std::string_view text, const std::string& file_name);

}  // namespace comera::io
