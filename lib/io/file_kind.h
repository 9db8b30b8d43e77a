// Recognises the kind of a file by its first bytes, so that an error message can explain why it is not read.
#pragma once

#include <string>
#include <string_view>

namespace comera::io {

struct FileKind {
  const char* name;      // "a GGUF file (llama.cpp)"
  const char* advice;    // remedy, or the input to use instead
  bool archive = false;  // holds other files, or one that is packed

  bool is_gguf() const { return std::string_view(name).starts_with("a GGUF"); }
};

// Returns null for an unknown kind. `start` needs the first 512 bytes, or the whole of a shorter file.
const FileKind* kind_of(std::string_view start);
// The same for a file; null also if it cannot be read.
const FileKind* kind_of_file(const std::string& path);

// InputError unless `path` is a folder or a GGUF file. `where` starts the message ("[finetune]", "[finetune]
// --teacher").
void require_model_folder(std::string_view where, const std::string& path);
// The remedy where `file` came and a model folder is wanted: its own folder, if that has a config.json.
std::string folder_instead_of(const std::string& file);

}  // namespace comera::io
