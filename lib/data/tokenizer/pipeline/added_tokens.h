// Tokens of tokenizer.json that are found in a text before it is split: special pieces, and words that a user added.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lib/data/tokenizer/piece_trie.h"
#include "lib/data/tokenizer/pipeline/normalizer.h"
#include "lib/data/tokenizer/pipeline/vocabulary.h"

namespace comera::data {

struct AddedToken {
  std::int32_t id = 0;
  std::string content;
  std::string shown = {};               // in decoded texts: the normalised content, if `normalized`
  bool single_word = false;             // only with no letter beside it
  bool lstrip = false, rstrip = false;  // takes the white space before, behind it
  bool normalized = false;              // is searched in the normalised text
  bool special = false;                 // left out of decoded texts
};

// A part of a text: an added token, or text (id -1).
struct TextPart {
  Span span;
  std::int32_t id = -1;
};

class AddedTokens {
 public:
  AddedTokens() = default;
  // `list`: added_tokens. A token that is also a piece of the model's vocabulary has that piece's id.
  AddedTokens(const JsonNode& list, const Vocabulary& vocabulary, const Normalizer& normalizer);

  const std::vector<AddedToken>& all() const { return all_; }
  // Null if none has this id.
  const AddedToken* find(std::int32_t id) const;
  const AddedToken* find(std::string_view content) const;

  std::vector<TextPart> split_original(std::string_view text) const { return split(text, original_); }
  std::vector<TextPart> split_normalised(std::string_view text) const { return split(text, normalised_); }

 private:
  struct Search {
    PieceTrie trie;  // values are places in all_
    bool any = false;
    std::array<bool, 256> begins{};  // first bytes
  };
  void add_to(Search& search, std::string_view content, std::size_t place);
  std::vector<TextPart> split(std::string_view text, const Search& search) const;

  std::vector<AddedToken> all_;
  std::unordered_map<std::int32_t, std::size_t> by_id_;
  Search original_, normalised_;
};

}  // namespace comera::data
