// Converts text to ids and back: BERT WordPiece (vocab.txt), SentencePiece (.model) and Hugging Face's tokenizer.json
// with one interface. Every method is const and may be called from several threads.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/data/files/cut.h"

namespace comera {
class Folder;
}

namespace comera::data {

using Ids = std::vector<std::int32_t>;

// Ids of the pieces with a role; -1 if the vocabulary has none. In SentencePiece models without [CLS] and [SEP], the
// pieces <s> and </s> take their roles.
struct Specials {
  std::int32_t pad = -1, unknown = -1, cls = -1, sep = -1, mask = -1;
  std::int32_t begin = -1, end = -1;  // around a text for a decoder: <s> and </s>, or [CLS] and [SEP]
  bool framed = false;                // the file tells what stands around a text: without a begin piece, there is none
  std::int32_t separators = 1;        // number of `sep` between two texts; 0: the file has no such rule
  bool second_type = true;            // the second of two texts has token type 1

  bool contains(std::int32_t id) const {
    return id >= 0 && (id == pad || id == unknown || id == cls || id == sep || id == mask || id == begin || id == end);
  }
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Appends the ids of `text`, without [CLS] and [SEP].
  virtual void encode(std::string_view text, Ids& ids) const = 0;
  // Returns the cut of `text` (valid UTF-8). The parts have the same tokens as the whole, except when `text` is one
  // word without an end.
  virtual Cut cut(std::string_view text) const = 0;
  // Converts ids to text, without special pieces unless `keep_special`. An id outside the vocabulary is an input
  // error.
  virtual std::string decode(const Ids& ids, bool keep_special = false) const = 0;

  virtual const Specials& specials() const = 0;
  virtual std::int64_t vocab_size() const = 0;
  // False outside the vocabulary. A tokenizer.json may leave out ids inside it.
  virtual bool has(std::int32_t id) const { return id >= 0 && id < vocab_size(); }
  virtual std::string piece(std::int32_t id) const = 0;
  // 32 hexadecimal digits over the vocabulary file's bytes and the options that change the ids.
  virtual const std::string& hash() const = 0;
  virtual const std::string& source() const = 0;  // path of the file, for messages
  // Writes the files for load_tokenizer() into an existing folder: vocab.txt + tokenizer_config.json, tokenizer.model,
  // or tokenizer.json with its side files.
  virtual void save(const Folder& folder) const = 0;

  // Like encode(), but stops in a long text once it has `enough` ids or more.
  void encode_start(std::string_view text, std::size_t enough, Ids& ids) const;

  Ids encode(std::string_view text) const {
    Ids ids;
    encode(text, ids);
    return ids;
  }
};

// Limits of a vocab.txt and of a tokenizer.json. The largest in use have half a million pieces in 5 and 33 MB.
constexpr std::uint64_t largest_vocabulary = 32 << 20;
constexpr std::uint64_t largest_tokenizer_json = 128 << 20;
constexpr std::int64_t most_pieces = 1 << 22;

enum class LetterCase : std::uint8_t { automatic, cased, uncased };

// `path`: a vocab.txt, a SentencePiece .model, a tokenizer.json, a vocab.json with merges.txt beside it, a GGUF file,
// or a folder that contains one of them (in a model folder: in its transformer's subfolder, if it has one). In a
// folder, a tokenizer.json counts before the others, except before the vocab.txt of a BERT tokenizer, which has the
// same ids. With LetterCase::automatic, a vocab.txt follows `do_lower_case` of the tokenizer_config.json beside it.
// Without that file it is cased if any entry except the [SPECIAL] ones contains an upper-case ASCII letter, else
// uncased. SentencePiece models contain their own rules.
// A `do_lower_case` in the sentence_bert_config.json beside the file also lowers the texts.
std::shared_ptr<const Tokenizer> load_tokenizer(const std::string& path,
                                                LetterCase letter_case = LetterCase::automatic);

// From memory. `name` is for messages.
std::shared_ptr<const Tokenizer> parse_wordpiece(std::string_view vocab, const std::string& name,
                                                 LetterCase letter_case = LetterCase::automatic);
std::shared_ptr<const Tokenizer> parse_sentencepiece(std::string_view model, const std::string& name);

// InputError if the tokenizer lacks cls or sep, or (if `needs_mask`) mask. Padding needs no piece, because lengths
// identify it.
void require_specials(const Tokenizer& tokenizer, bool needs_mask);

}  // namespace comera::data
