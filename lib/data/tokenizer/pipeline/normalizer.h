// Normalizers of tokenizer.json: rules that rewrite a text before it is split.
#pragma once

#include <functional>

#include "lib/data/tokenizer/pipeline/aligned_text.h"
#include "lib/data/tokenizer/pipeline/json_node.h"
#include "lib/data/tokenizer/pipeline/pattern.h"

namespace comera::data {

using Normalizer = std::function<void(AlignedText&)>;

// Sequence, BertNormalizer, NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Strip, Replace, Prepend, Precompiled,
// ByteLevel, Nmt. Another type is an InputError that names it.
Normalizer read_normalizer(const JsonNode& node);

// {"String": text} or {"Regex": expression}
Pattern read_pattern(const JsonNode& node);

}  // namespace comera::data
