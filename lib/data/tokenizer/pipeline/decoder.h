// Decoders of tokenizer.json: rules that turn pieces back into text.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lib/data/tokenizer/pipeline/json_node.h"

namespace comera::data {

using Decoder = std::function<void(std::vector<std::string>& pieces)>;  // what is left is joined

// Sequence, BPEDecoder, ByteFallback, ByteLevel, Fuse, Metaspace, Replace, Strip, WordPiece. Another type is an
// InputError that names it.
Decoder read_decoder(const JsonNode& node);

}  // namespace comera::data
