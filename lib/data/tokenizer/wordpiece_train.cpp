// Trains a WordPiece vocabulary, declared in lib/data/tokenizer/tokenizer_train.h.
#include <algorithm>
#include <map>
#include <queue>
#include <unordered_map>

#include "lib/core/error.h"
#include "lib/core/terminal/stop.h"
#include "lib/core/terminal/task_progress.h"
#include "lib/data/tokenizer/tokenizer_train.h"
#include "lib/data/tokenizer/unicode.h"
#include "lib/data/tokenizer/wordpiece.h"

namespace comera::data {
namespace {

constexpr const char* special_pieces[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};

struct Word {
  std::vector<std::int32_t> symbols;
  std::int64_t count = 0;
};

using WordCounts = std::map<std::string, std::int64_t>;  // in byte order, so that the result does not depend on a hash

WordCounts count_words(std::span<const std::string> texts, LetterCase letter_case) {
  const bool lower = letter_case != LetterCase::cased;
  const BertRules rules{.lower = lower, .strip_accents = lower, .split_cjk = true};
  std::unordered_map<std::string, std::int64_t> counts;
  std::string buffer;
  TaskProgress task("counting words of texts", std::ssize(texts));
  for (const std::string& text : texts) {
    check_stop();
    for_each_word(text, rules, buffer, [&](std::string_view word) {
      if (word.size() <= 4 * WordPiece::max_word) ++counts[std::string(word)];
    });
    task.advance();
  }
  return {counts.begin(), counts.end()};
}

// The growing vocabulary: special pieces, characters, merges.
class Trainer {
 public:
  Trainer(const WordCounts& counts, const TrainTokenizerOptions& options) : options_(options) {
    for (const char* piece : special_pieces) add(piece);
    add_characters(counts);
    add_words(counts);
  }

  std::string train() {
    for (const auto& [pair, count] : pair_counts_) push(pair);
    TaskProgress task("learning pieces", options_.vocab_size);
    while (static_cast<std::int64_t>(pieces_.size()) < options_.vocab_size && !queue_.empty()) {
      const Candidate top = queue_.top();
      queue_.pop();
      const std::int64_t now = pair_counts_[top.pair];
      if (now != top.count) {
        push(top.pair);
        continue;
      }
      check_stop();
      merge(top.pair);
      task.done(std::ssize(pieces_));
    }
    std::string vocab;
    for (const std::string& piece : pieces_) vocab += piece + "\n";
    return vocab;
  }

 private:
  using Pair = std::uint64_t;  // left << 32 | right

  struct Candidate {
    std::int64_t count;
    Pair pair;
    bool operator<(const Candidate& other) const {
      return count != other.count ? count < other.count : pair > other.pair;
    }
  };

  static Pair pair_of(std::int32_t left, std::int32_t right) {
    return static_cast<Pair>(left) << 32 | static_cast<std::uint32_t>(right);
  }

  std::int32_t add(const std::string& piece) {
    const auto [found, fresh] = ids_.emplace(piece, static_cast<std::int32_t>(pieces_.size()));
    if (fresh) pieces_.push_back(piece);
    return found->second;
  }

  // Adds the most frequent characters, each alone, and with ## if it occurs inside words.
  void add_characters(const WordCounts& counts) {
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
  void add_words(const WordCounts& counts) {
    for (const auto& [text, count] : counts) {
      check_stop();
      Word word{{}, count};
      bool known = true;
      for (std::size_t at = 0; at < text.size() && known;) {
        std::string piece = at == 0 ? "" : "##";
        append_utf8(piece, next_code_point(text, at));
        const auto found = ids_.find(piece);
        known = found != ids_.end();
        if (known) word.symbols.push_back(found->second);
      }
      if (!known || word.symbols.size() < 2) continue;
      for (std::size_t i = 0; i + 1 < word.symbols.size(); ++i)
        change(pair_of(word.symbols[i], word.symbols[i + 1]), count, words_.size());
      words_.push_back(std::move(word));
    }
  }

  void change(Pair pair, std::int64_t by, std::size_t word) {
    pair_counts_[pair] += by;
    if (by > 0) where_[pair].push_back(word);
  }

  void push(Pair pair) {
    const std::int64_t count = pair_counts_[pair];
    if (count >= std::max<std::int64_t>(1, options_.min_count)) queue_.push({count, pair});
  }

  void merge(Pair pair) {
    const auto left = static_cast<std::int32_t>(pair >> 32), right = static_cast<std::int32_t>(pair & 0xFFFFFFFFu);
    const std::int32_t merged =
        add(pieces_[static_cast<std::size_t>(left)] + pieces_[static_cast<std::size_t>(right)].substr(2));
    std::vector<std::size_t> words = std::move(where_[pair]);
    where_.erase(pair);
    std::sort(words.begin(), words.end());
    words.erase(std::unique(words.begin(), words.end()), words.end());
    std::vector<Pair> grown;
    for (std::size_t index : words) merge_in(words_[index], index, left, right, merged, grown);
    pair_counts_.erase(pair);
    std::sort(grown.begin(), grown.end());
    grown.erase(std::unique(grown.begin(), grown.end()), grown.end());
    for (Pair fresh : grown) push(fresh);
  }

  // Subtracts the word's pairs from the counts, merges from left to right, and adds the new pairs.
  void merge_in(Word& word, std::size_t index, std::int32_t left, std::int32_t right, std::int32_t merged,
                std::vector<Pair>& grown) {
    std::vector<std::int32_t>& symbols = word.symbols;
    std::vector<std::int32_t> after;
    for (std::size_t i = 0; i < symbols.size(); ++i) {
      const bool match = i + 1 < symbols.size() && symbols[i] == left && symbols[i + 1] == right;
      after.push_back(match ? merged : symbols[i]);
      i += match;
    }
    if (after.size() == symbols.size()) return;
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i)
      change(pair_of(symbols[i], symbols[i + 1]), -word.count, index);
    for (std::size_t i = 0; i + 1 < after.size(); ++i) {
      const Pair pair = pair_of(after[i], after[i + 1]);
      change(pair, word.count, index);
      if (after[i] == merged || after[i + 1] == merged) grown.push_back(pair);
    }
    symbols.swap(after);
  }

  const TrainTokenizerOptions& options_;
  std::vector<std::string> pieces_;
  std::unordered_map<std::string, std::int32_t> ids_;
  std::vector<Word> words_;
  std::unordered_map<Pair, std::int64_t> pair_counts_;
  std::unordered_map<Pair, std::vector<std::size_t>> where_;  // words that contain or contained the pair
  std::priority_queue<Candidate> queue_;
};

}  // namespace

std::string train_wordpiece(std::span<const std::string> texts, const TrainTokenizerOptions& options) {
  const WordCounts counts = count_words(texts, options.letter_case);
  if (counts.empty()) fail_input("[tokenizer] the texts hold no word to learn from");
  return Trainer(counts, options).train();
}

}  // namespace comera::data
