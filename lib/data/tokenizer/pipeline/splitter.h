// Pre-tokenizers of tokenizer.json: rules that split a text into words, which the model turns into tokens one by one.
#pragma once

#include <functional>
#include <vector>

#include "lib/data/tokenizer/pipeline/aligned_text.h"
#include "lib/data/tokenizer/pipeline/json_node.h"

namespace comera::data {

struct Words {
  AlignedText text;
  std::vector<Span> parts = {};  // of text.text, in order, not empty
};

using Splitter = std::function<void(Words&)>;

// Sequence, BertPreTokenizer, ByteLevel, CharDelimiterSplit, Digits, FixedLength, Metaspace, Punctuation, Split,
// Whitespace, WhitespaceSplit. Another type is an InputError that names it.
Splitter read_splitter(const JsonNode& node);

}  // namespace comera::data
