// Checks the tables of a SentencePiece model file before the library reads it. The library follows them without bounds
// checks.
#pragma once

#include <string>
#include <string_view>

namespace comera::data {

// InputError if the bytes of a SentencePiece model (sentencepiece_model.proto) would lead the library outside its
// memory. The library itself checks that they are such a model.
void check_sentencepiece(std::string_view model, const std::string& name);

// The same for a `precompiled_charsmap`: 4 bytes (size of the trie), the trie (a double array of 4-byte units as built
// by darts-clone), and the replacement texts, each with a null byte at its end.
void check_charsmap(std::string_view map, const std::string& name);

}  // namespace comera::data
