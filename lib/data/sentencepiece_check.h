// SentencePiece follows the tables of a model file without looking whether they stay inside the file. This looks before
// it is handed the file.
#pragma once

#include <string>
#include <string_view>

namespace comera::data {

// InputError where the bytes of a SentencePiece model (sentencepiece_model.proto) would lead the library out of its
// memory. That they are such a model at all is left to the library.
void check_sentencepiece(std::string_view model, const std::string& name);

// The same of a `precompiled_charsmap`: 4 bytes (size of the trie), the trie (a double array of 4-byte units as
// darts-clone builds it), the texts that characters are replaced by, each with a null byte behind it.
void check_charsmap(std::string_view map, const std::string& name);

}  // namespace comera::data
