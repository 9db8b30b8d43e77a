// Tells the kind of a file by its first bytes, so that a message can name why it is not read.
#pragma once

#include <string>
#include <string_view>

namespace comera::io {

struct FileKind {
  const char* name;    // "a GGUF file (llama.cpp)"
  const char* advice;  // what to do with it, or to give in its place
};

// Null where the bytes are of no kind that we know. 512 bytes are enough; of a shorter file all.
const FileKind* kind_of(std::string_view start);
// The same of a file; null also where it cannot be read.
const FileKind* kind_of_file(const std::string& path);

// InputError unless `path` is a folder. `where` opens the message ("[finetune]", "[finetune] --teacher").
void require_model_folder(std::string_view where, const std::string& path);

}  // namespace comera::io
