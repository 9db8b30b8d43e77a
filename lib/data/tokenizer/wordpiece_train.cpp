// Trains a WordPiece vocabulary, declared in lib/data/tokenizer/tokenizer_train.h.
#include <algorithm>
#include <map>
#include <unordered_map>

#include "lib/core/error.h"
#include "lib/core/terminal/log.h"
#include "lib/core/terminal/stop.h"
#include "lib/core/terminal/task_progress.h"
#include "lib/data/tokenizer/tokenizer_train.h"
#include "lib/data/tokenizer/training/pair_merger.h"
#include "lib/data/tokenizer/training/word_counts.h"
#include "lib/data/tokenizer/unicode.h"
#include "lib/data/tokenizer/wordpiece.h"

namespace comera::data {
namespace {

constexpr const char* special_pieces[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};

using CountedWords = std::vector<std::pair<std::string, std::int64_t>>;  // in byte order

CountedWords count_words(const TextSource& texts, LetterCase letter_case) {
  const bool lower = letter_case != LetterCase::cased;
  const BertRules rules{.lower = lower, .strip_accents = lower, .split_cjk = true};
  WordCounts counts;
  std::string buffer;
  texts([&](std::string_view text) {
    check_stop();
    for_each_word(text, rules, buffer, [&](std::string_view word) {
      if (word.size() <= 4 * WordPiece::max_word) counts.add(word);
    });
  });
  if (counts.dropped() > 0) log_info("{} rare words were dropped while counting", counts.dropped());
  return counts.take_sorted();
}

// The growing vocabulary: special pieces, characters, merges.
class Trainer {
 public:
  Trainer(const CountedWords& counts, const TrainTokenizerOptions& options) : options_(options) {
    for (const char* piece : special_pieces) add(piece);
    add_characters(counts);
    add_words(counts);
  }

  std::string train() {
    merger_.start();
    TaskProgress task("learning pieces", options_.vocab_size);
    while (static_cast<std::int64_t>(pieces_.size()) < options_.vocab_size) {
      const auto pair = merger_.best(std::max<std::int64_t>(1, options_.min_count));
      if (!pair) break;
      check_stop();
      merger_.merge(*pair, add(text_of(pair->left) + text_of(pair->right).substr(2)));
      task.done(std::ssize(pieces_));
    }
    std::string vocab;
    for (const std::string& piece : pieces_) vocab += piece + "\n";
    return vocab;
  }

 private:
  const std::string& text_of(std::int32_t id) const { return pieces_[static_cast<std::size_t>(id)]; }

  std::int32_t add(const std::string& piece) {
    const auto [found, fresh] = ids_.emplace(piece, static_cast<std::int32_t>(pieces_.size()));
    if (fresh) pieces_.push_back(piece);
    return found->second;
  }

  // Adds the most frequent characters, each alone, and with ## if it occurs inside words.
  void add_characters(const CountedWords& counts) {
    struct Seen {
      std::int64_t count = 0;
      bool inside = false;
    };
    std::map<std::uint32_t, Seen> seen;
    for (const auto& [word, count] : counts)
      for (std::size_t at = 0; at < word.size();) {
        const bool start = at == 0;
        Seen& entry = seen[next_code_point(word, at)];
        entry.count += count;
        entry.inside = entry.inside || !start || at < word.size();
      }
    std::vector<std::pair<std::int64_t, std::uint32_t>> order;
    for (const auto& [code_point, entry] : seen) order.emplace_back(-entry.count, code_point);
    std::sort(order.begin(), order.end());
    for (std::size_t i = static_cast<std::size_t>(options_.alphabet); i < order.size(); ++i)
      seen.erase(order[i].second);
    for (const char* prefix : {"", "##"})
      for (const auto& [code_point, entry] : seen)
        if (*prefix == '\0' || entry.inside) {
          std::string piece = prefix;
          append_utf8(piece, code_point);
          add(piece);
        }
    if (static_cast<std::int64_t>(pieces_.size()) > options_.vocab_size)
      fail_input(
          "[tokenizer] a vocabulary of {} entries has no room for the {} of special pieces and characters; use "
          "--vocab-size {} or more",
          options_.vocab_size, pieces_.size(), pieces_.size());
  }

  // Skips words with a character that has no piece, because they cannot be encoded.
  void add_words(const CountedWords& counts) {
    std::vector<std::int32_t> symbols;
    for (const auto& [text, count] : counts) {
      check_stop();
      symbols.clear();
      bool known = true;
      for (std::size_t at = 0; at < text.size() && known;) {
        std::string piece = at == 0 ? "" : "##";
        append_utf8(piece, next_code_point(text, at));
        const auto found = ids_.find(piece);
        known = found != ids_.end();
        if (known) symbols.push_back(found->second);
      }
      if (known) merger_.add_word(symbols, count);
    }
  }

  const TrainTokenizerOptions& options_;
  std::vector<std::string> pieces_;
  std::unordered_map<std::string, std::int32_t> ids_;
  PairMerger merger_;
};

}  // namespace

std::string train_wordpiece(const TextSource& texts, const TrainTokenizerOptions& options) {
  const CountedWords counts = count_words(texts, options.letter_case);
  if (counts.empty()) fail_input("[tokenizer] the texts hold no word to learn from");
  return Trainer(counts, options).train();
}

}  // namespace comera::data
