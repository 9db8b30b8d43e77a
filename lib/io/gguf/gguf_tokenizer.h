// The tokenizer in a GGUF file, as a Hugging Face folder would hold it: byte-level BPE (kind "gpt2") as tokenizer.json,
// SentencePiece's BPE (kind "llama") as tokenizer.model.
#pragma once

#include <string>

#include "lib/io/gguf/gguf.h"
#include "lib/io/json.h"

namespace comera::io {

struct GgufTokenizerFiles {
  std::string name;       // tokenizer.json or tokenizer.model
  std::string tokenizer;  // its bytes
  std::string config;     // tokenizer_config.json
};
// InputError for other kinds, and for damage.
GgufTokenizerFiles gguf_tokenizer_files(const GgufFile& file);

// "llama.context_length": keys of an architecture begin with its name.
std::string gguf_key(const GgufFile& file, const char* name);
std::string gguf_token_key(const char* name);  // of the id of a special token: "tokenizer.ggml.bos_token_id"

}  // namespace comera::io
