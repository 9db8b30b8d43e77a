// Text to ids and back: BERT WordPiece (vocab.txt) and SentencePiece (.model) behind one interface. Every method is
// const and may be called from several threads.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/data/cut.h"

namespace comera {
class Folder;
}

namespace comera::data {

using Ids = std::vector<std::int32_t>;

// Ids of the pieces with a role; -1 where the vocabulary has none. In SentencePiece models without [CLS] and [SEP] the
// pieces <s> and
// </s> take their places.
struct Specials {
  std::int32_t pad = -1, unknown = -1, cls = -1, sep = -1, mask = -1;
  std::int32_t begin = -1, end = -1;  // around a text that a decoder reads: <s> and </s>, or [CLS] and [SEP]

  bool contains(std::int32_t id) const {
    return id >= 0 && (id == pad || id == unknown || id == cls || id == sep || id == mask || id == begin || id == end);
  }
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Appends the ids of `text`, without [CLS] and [SEP].
  virtual void encode(std::string_view text, Ids& ids) const = 0;
  // Where `text`, of valid UTF-8, may be cut: the parts have the tokens of the whole, but for a word of which there is
  // no end in it.
  virtual Cut cut(std::string_view text) const = 0;
  // Ids to text; special pieces are left out unless `keep_special`. An id outside the vocabulary is an input error.
  virtual std::string decode(const Ids& ids, bool keep_special = false) const = 0;

  virtual const Specials& specials() const = 0;
  virtual std::int64_t vocab_size() const = 0;
  virtual std::string piece(std::int32_t id) const = 0;
  // 32 hexadecimal digits over the vocabulary file's bytes and the options that change the ids.
  virtual const std::string& hash() const = 0;
  virtual const std::string& source() const = 0;  // the file it was read from, for messages
  // Writes the files that load_tokenizer() needs into an existing folder: vocab.txt + tokenizer_config.json, or
  // tokenizer.model.
  virtual void save(const Folder& folder) const = 0;

  // As encode(), but of a long text only as much as gives `enough` ids or more.
  void encode_start(std::string_view text, std::size_t enough, Ids& ids) const;

  Ids encode(std::string_view text) const {
    Ids ids;
    encode(text, ids);
    return ids;
  }
};

// Bounds of a vocab.txt; the largest in use have half a million pieces in 5 MB.
constexpr std::uint64_t largest_vocabulary = 32 << 20;
constexpr std::int64_t most_pieces = 1 << 22;

enum class LetterCase : std::uint8_t { automatic, cased, uncased };

// `path`: a vocab.txt, a SentencePiece .model, or a folder that holds vocab.txt, tokenizer.model, spiece.model or
// sentencepiece.bpe.model (a model folder whose transformer lies deeper: there). With LetterCase::automatic a vocab.txt
// follows `do_lower_case` of the tokenizer_config.json beside it; without one it is taken as cased if any entry but the
// [SPECIAL] ones holds an upper-case ASCII letter, else as uncased. SentencePiece models carry their own rules.
std::shared_ptr<const Tokenizer> load_tokenizer(const std::string& path,
                                                LetterCase letter_case = LetterCase::automatic);

// From memory: `name` stands in messages.
std::shared_ptr<const Tokenizer> parse_wordpiece(std::string_view vocab, const std::string& name,
                                                 LetterCase letter_case = LetterCase::automatic);
std::shared_ptr<const Tokenizer> parse_sentencepiece(std::string_view model, const std::string& name);

// Fails with a sentence if the tokenizer lacks cls or sep, or (if `needs_mask`) mask. Padding needs no piece: lengths
// tell it apart.
void require_specials(const Tokenizer& tokenizer, bool needs_mask);

}  // namespace comera::data
