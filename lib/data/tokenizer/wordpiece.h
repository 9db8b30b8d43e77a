// BERT's tokenizer: normalises text, splits it into words, and cuts each word greedily into the longest pieces of the
// vocabulary (Devlin et al. 2019; Wu et al. 2016, section 4.1). Ids and decoded text equal those of Hugging Face's
// BertWordPieceTokenizer.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/data/tokenizer/piece_trie.h"
#include "lib/data/tokenizer/tokenizer.h"

namespace comera::data {

struct BertRules {
  bool lower = true;
  bool strip_accents = true;  // NFD, then drops non-spacing marks
  bool split_cjk = true;
};

// Calls `word` with every normalised word of `text` (valid UTF-8) in order: control characters are dropped, blanks and
// punctuation split words.
void for_each_word(std::string_view text, const BertRules& rules, std::string& buffer,
                   const std::function<void(std::string_view)>& word);

class WordPiece final : public Tokenizer {
 public:
  static constexpr std::size_t max_word = 100;  // characters; longer words become [UNK]

  WordPiece(std::string_view vocab, std::string name, BertRules rules);

  using Tokenizer::encode;
  void encode(std::string_view text, Ids& ids) const override;
  // Cuts at the last blank, else after the last ASCII punctuation except the brackets of special pieces, else before
  // the last ideograph.
  Cut cut(std::string_view text) const override;
  std::string decode(const Ids& ids, bool keep_special) const override;
  const Specials& specials() const override { return specials_; }
  std::int64_t vocab_size() const override { return static_cast<std::int64_t>(pieces_.size()); }
  std::string piece(std::int32_t id) const override;
  const std::string& hash() const override { return hash_; }
  const std::string& source() const override { return name_; }
  void save(const Folder& folder) const override;

 private:
  void encode_plain(std::string_view text, std::string& buffer, Ids& ids) const;
  void encode_word(std::string_view word, Ids& ids) const;

  std::string name_, vocab_, hash_;
  BertRules rules_;
  std::vector<std::string> pieces_;
  std::array<std::pair<std::string, std::int32_t>, 5> written_;  // special pieces that are recognised in text
  Specials specials_;
  PieceTrie starts_, continuations_;
};

// True if an entry except the [SPECIAL] ones contains an upper-case ASCII letter.
bool looks_cased(std::string_view vocab);

}  // namespace comera::data
