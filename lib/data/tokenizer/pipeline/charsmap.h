// The precompiled table of character replacements of a SentencePiece model, as tokenizer.json stores it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/data/tokenizer/pipeline/aligned_text.h"

namespace comera::data {

class Charsmap {
 public:
  // `base64`: 4 bytes (size of the trie), a double array of 4-byte units, the replacements with a null byte at each
  // end. InputError, which begins with `place`, if the table is damaged.
  Charsmap(const std::string& base64, const std::string& place);

  // Replaces each grapheme of less than 6 bytes that has an entry, else each of its characters that has one.
  void apply(AlignedText& text) const;

 private:
  // The replacement of the shortest start of `text` with an entry; null if there is none.
  const char* find(std::string_view text) const;

  std::vector<std::uint32_t> units_;
  std::string replacements_;
};

}  // namespace comera::data
