// The Metaspace rule, a pre-tokenizer and a decoder: blanks are written as a visible character.
#pragma once

#include <cstdint>
#include <string>

#include "lib/data/tokenizer/pipeline/json_node.h"

namespace comera::data {

struct Metaspace {
  enum class Scheme : std::uint8_t { first, never, always };  // which words get a replacement before them
  std::string replacement;
  Scheme scheme = Scheme::always;
  bool splits = true;
};

// Also reads the older form with "add_prefix_space".
Metaspace read_metaspace(const JsonNode& node);

}  // namespace comera::data
