// Tells which pieces of a vocabulary go on with a word.
#pragma once

#include <vector>

#include "lib/data/tokenizer/tokenizer.h"

namespace comera::data {

// By id: true if the piece does not begin a word. The vocabulary's own mark decides: "##" before a piece that goes on
// (WordPiece), or U+2581 or U+0120 before one that begins a word (SentencePiece, byte-level BPE). Without a mark every
// piece is a word.
std::vector<bool> pieces_inside_words(const Tokenizer& tokenizer);

}  // namespace comera::data
