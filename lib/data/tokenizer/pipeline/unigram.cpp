// The unigram model as in tokenizer.json.
#include <algorithm>
#include <cmath>

#include "lib/data/tokenizer/piece_trie.h"
#include "lib/data/tokenizer/pipeline/word_model.h"
#include "lib/data/tokenizer/unicode.h"

namespace comera::data {
namespace {

// An unknown character is this much less likely than the least likely piece (as in SentencePiece).
constexpr double unknown_penalty = 10;

class Unigram final : public WordModel {
 public:
  Unigram(Vocabulary given, std::vector<double> scores, const JsonNode& node)
      : WordModel(std::move(given)),
        scores_(std::move(scores)),
        unknown_(static_cast<std::int32_t>(std::clamp<std::int64_t>(node.integer_or("unk_id", -1), -1, INT32_MAX))),
        bytes_(byte_pieces(node.flag_or("byte_fallback", false))) {
    if (unknown_ >= vocabulary().size())
      node.fail("\"unk_id\" {} is outside the vocabulary of {} pieces", unknown_, vocabulary().size());
    unknown_score_ = *std::min_element(scores_.begin(), scores_.end()) - unknown_penalty;
    for (std::int32_t id = 0; id < vocabulary().size(); ++id)
      if (!vocabulary().piece(id).empty()) trie_.insert(vocabulary().piece(id), id);
  }

  void encode(std::string_view word, std::vector<Token>& tokens) const override {
    const std::vector<Best> best = best_paths(word);
    std::vector<Token> backwards;
    for (std::size_t end = word.size(); end > 0; end = best[end].begin) {
      const Token token{best[end].id, {best[end].begin, end}};
      if (token.id == unknown_ && !backwards.empty() && backwards.back().id == unknown_)
        backwards.back().span.begin = token.span.begin;
      else
        backwards.push_back(token);
    }
    for (auto token = backwards.rbegin(); token != backwards.rend(); ++token) {
      if (token->id != unknown_ || bytes_.empty()) {
        if (token->id >= 0) tokens.push_back(*token);
        continue;
      }
      for (std::size_t i = token->span.begin; i < token->span.end; ++i)
        tokens.push_back({bytes_[static_cast<unsigned char>(word[i])], token->span});
    }
  }
  std::int32_t unknown() const override { return unknown_; }

 private:
  // The best split of the bytes before a place ends with piece `id`, which begins at `begin`.
  struct Best {
    double score = 0;
    std::size_t begin = SIZE_MAX;
    std::int32_t id = -1;
  };

  std::vector<Best> best_paths(std::string_view word) const {
    std::vector<Best> best(word.size() + 1);
    best[0].begin = 0;
    for (std::size_t at = 0; at < word.size();) {
      std::size_t next = at;
      next_code_point(word, next);
      bool single = false;
      const auto offer = [&](std::size_t end, double score, std::int32_t id) {
        Best& target = best[end];
        if (target.begin == SIZE_MAX || best[at].score + score > target.score)
          target = {best[at].score + score, at, id};
      };
      trie_.for_each_start(word.substr(at), [&](std::int32_t id, std::size_t length) {
        offer(at + length, scores_[static_cast<std::size_t>(id)], id);
        single = single || at + length == next;
      });
      if (!single) offer(next, unknown_score_, unknown_);
      at = next;
    }
    return best;
  }

  std::vector<double> scores_;
  std::int32_t unknown_;
  std::vector<std::int32_t> bytes_;
  double unknown_score_ = 0;
  PieceTrie trie_;
};

}  // namespace

std::unique_ptr<WordModel> read_unigram(const JsonNode& node) {
  Vocabulary vocabulary;
  std::vector<double> scores;
  node.at("vocab").for_each_item([&](const JsonNode& item) {
    const io::Json& pair = item.json();
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string() || !pair[1].is_number())
      item.fail("must be a piece and its logarithmic probability");
    vocabulary.add(pair[0].get<std::string>(), static_cast<std::int64_t>(scores.size()), item);
    scores.push_back(pair[1].get<double>());
    if (!std::isfinite(scores.back())) item.fail("the logarithmic probability is not finite");
  });
  if (scores.empty()) node.at("vocab").fail("is empty");
  return std::make_unique<Unigram>(std::move(vocabulary), std::move(scores), node);
}

}  // namespace comera::data
