// The tokenizer of a model folder as keys of a GGUF file.
#pragma once

#include <vector>

#include "lib/io/gguf/gguf_write.h"
#include "lib/io/model_folder.h"

namespace comera::exporting {

// From tokenizer.json (byte-level BPE) or tokenizer.model (SentencePiece), with the special tokens of config.json and
// tokenizer_config.json, and the chat template. `rows`: of the word table; rows without a piece become unused tokens.
// InputError: no such tokenizer, a split that llama.cpp does not know, or more pieces than rows.
std::vector<io::GgufKey> gguf_tokens(const io::ModelFolder& folder, std::int64_t rows);
// The keys of a model whose ids have no texts.
std::vector<io::GgufKey> gguf_without_tokens();

}  // namespace comera::exporting
