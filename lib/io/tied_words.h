// Word tables that are the decoder of words (the head) too, as config.json and names of weights say.
#pragma once

#include <span>
#include <string_view>

#include "lib/io/json.h"

namespace comera::io {

// Globs for the names, without ".weight", of a pair of weights that Hugging Face ties. A folder may hold both copies.
struct Tie {
  const char *table, *head;
};
std::span<const Tie> known_ties();

// True if weights of this name, without ".weight", are decoders of words.
bool is_head_of_words(std::string_view name);

// tie_word_embeddings, or the default of the family: transformers 4 leaves the key out where it has that value.
// `table`: a name or a glob of the word table.
bool says_tied(const Json& config, std::string_view table);

// False if config.json names an architecture that has no decoder of words, such as a classifier.
bool has_decoder_of_words(const Json& config);

}  // namespace comera::io
