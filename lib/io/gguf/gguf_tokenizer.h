// The tokenizer in a GGUF file, as a Hugging Face folder would hold it.
#pragma once

#include <string>

#include "lib/io/gguf/gguf.h"
#include "lib/io/json.h"

namespace comera::io {

// tokenizer.json of a byte-level BPE, as PyPI's tokenizers reads it. InputError for other kinds.
Json gguf_tokenizer(const GgufFile& file);
Json gguf_tokenizer_config(const GgufFile& file);

// The texts of both files. InputError as above.
struct GgufTokenizerFiles {
  std::string tokenizer, config;  // tokenizer.json, tokenizer_config.json
};
GgufTokenizerFiles gguf_tokenizer_files(const GgufFile& file);

// "llama.context_length": keys of an architecture begin with its name.
std::string gguf_key(const GgufFile& file, const char* name);
std::string gguf_token_key(const char* name);  // of the id of a special token: "tokenizer.ggml.bos_token_id"

}  // namespace comera::io
