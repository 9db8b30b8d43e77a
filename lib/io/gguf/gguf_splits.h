// How texts are split before byte-level BPE: llama.cpp has a name for it, tokenizer.json a description.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lib/io/json.h"

namespace comera::io {

struct WordSplit {
  const char* name;  // llama.cpp's, tokenizer.ggml.pre
  Json pre_tokenizer;
  Json normalizer;             // null: none
  bool ignore_merges = false;  // a whole word of the vocabulary is one token
};
std::optional<WordSplit> split_named(std::string_view name);
// The split of a tokenizer.json; none if llama.cpp has no name for it that is known here.
std::optional<WordSplit> split_of(const Json& tokenizer);
std::string known_splits();  // "gpt-2, smollm, ..."

}  // namespace comera::io
