// Trains a byte-level BPE, declared in lib/data/tokenizer/tokenizer_train.h.
#include <algorithm>
#include <unordered_map>

#include "lib/core/error.h"
#include "lib/core/terminal/log.h"
#include "lib/core/terminal/stop.h"
#include "lib/core/terminal/task_progress.h"
#include "lib/data/tokenizer/pipeline/byte_characters.h"
#include "lib/data/tokenizer/pipeline/splitter.h"
#include "lib/data/tokenizer/tokenizer_train.h"
#include "lib/data/tokenizer/training/pair_merger.h"
#include "lib/data/tokenizer/training/tokenizer_files.h"
#include "lib/data/tokenizer/training/word_counts.h"
#include "lib/data/tokenizer/unicode.h"

namespace comera::data {
namespace {

constexpr std::size_t longest_word = 4096;

using CountedWords = std::vector<std::pair<std::string, std::int64_t>>;  // in byte order

// Words are counted as the bytes of the text; only different ones are written as characters of bytes.
CountedWords count_words(const TextSource& texts) {
  const io::Json json = byte_level_json();
  const Splitter split = read_splitter(JsonNode(json, "[tokenizer] byte-level words"));
  WordCounts counts;
  texts([&](std::string_view text) {
    check_stop();
    Words words{.text = AlignedText(text, {0, text.size()}, false)};
    words.parts.push_back({0, text.size()});
    split(words);
    for (const Span& part : words.parts)
      if (part.size() <= longest_word) counts.add(std::string_view(words.text.text).substr(part.begin, part.size()));
  });
  if (counts.dropped() > 0) log_info("{} rare words were dropped while counting", counts.dropped());
  return counts.take_sorted();
}

class Trainer {
 public:
  Trainer(const CountedWords& counts, const TrainTokenizerOptions& options) : options_(options) {
    for (const std::string& piece : special_pieces(options.frame)) add(piece);
    std::vector<std::string> characters;
    for (int byte = 0; byte < 256; ++byte) characters.push_back(character_of_byte(static_cast<unsigned char>(byte)));
    std::sort(characters.begin(), characters.end());  // bytes of UTF-8 are in the order of code points
    for (const std::string& character : characters) add(character);
    std::vector<std::int32_t> symbols;
    for (const auto& [word, count] : counts) {
      symbols.clear();
      for (std::size_t at = 0; at < word.size();) {
        const std::size_t begin = at;
        next_code_point(word, at);
        symbols.push_back(ids_.at(word.substr(begin, at - begin)));
      }
      merger_.add_word(symbols, count);
    }
  }

  BpeVocabulary train() {
    BpeVocabulary made;
    TaskProgress task("learning pieces", options_.vocab_size);
    merger_.start();
    while (std::ssize(pieces_) < options_.vocab_size) {
      const auto pair = merger_.best(std::max<std::int64_t>(1, options_.min_count));
      if (!pair) break;
      check_stop();
      const std::string left = pieces_[static_cast<std::size_t>(pair->left)];
      const std::string right = pieces_[static_cast<std::size_t>(pair->right)];
      merger_.merge(*pair, add(left + right));
      made.merges.emplace_back(left, right);
      task.done(std::ssize(pieces_));
    }
    made.pieces = std::move(pieces_);
    return made;
  }

 private:
  std::int32_t add(const std::string& piece) {
    const auto [found, fresh] = ids_.emplace(piece, static_cast<std::int32_t>(pieces_.size()));
    if (fresh) pieces_.push_back(piece);
    return found->second;
  }

  const TrainTokenizerOptions& options_;
  std::vector<std::string> pieces_;
  std::unordered_map<std::string, std::int32_t> ids_;
  PairMerger merger_;
};

}  // namespace

std::string train_bpe(const TextSource& texts, const TrainTokenizerOptions& options) {
  const std::int64_t least = std::ssize(special_pieces(options.frame)) + 256;
  if (options.vocab_size < least)
    fail_input(
        "[tokenizer] a vocabulary of {} entries has no room for the {} of special pieces and bytes; use --vocab-size "
        "{} "
        "or more",
        options.vocab_size, least, least);
  const CountedWords counts = count_words(texts);
  if (counts.empty()) fail_input("[tokenizer] the texts hold no word to learn from");
  return bpe_tokenizer_json(Trainer(counts, options).train(), options.frame);
}

}  // namespace comera::data
