#include "lib/data/tokenizer/pipeline/word_model.h"

#include "lib/data/tokenizer/piece_trie.h"

namespace comera::data {
namespace {

std::int32_t unknown_of(const JsonNode& node, const Vocabulary& vocabulary) {
  const auto name = node.find("unk_token");
  if (!name) return -1;
  const std::int32_t id = vocabulary.find(name->text());
  if (id < 0) name->fail("\"{}\" is no piece of the vocabulary", name->text());
  return id;
}

std::size_t count_characters(std::string_view text) {
  std::size_t count = 0;
  for (char c : text) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return count;
}

class WordPieceModel final : public WordModel {
 public:
  WordPieceModel(Vocabulary given, const JsonNode& node)
      : WordModel(std::move(given)),
        unknown_(unknown_of(node, vocabulary())),
        longest_(node.integer_or("max_input_chars_per_word", 100)) {
    if (unknown_ < 0) node.fail("\"unk_token\" is missing");
    const std::string prefix = node.text_or("continuing_subword_prefix", "##");
    for (std::int32_t id = 0; id < vocabulary().size(); ++id) {
      const std::string_view piece = vocabulary().piece(id);
      if (!piece.empty()) starts_.insert(piece, id);
      if (piece.size() > prefix.size() && piece.starts_with(prefix))
        continuations_.insert(piece.substr(prefix.size()), id);
    }
  }

  void encode(std::string_view word, std::vector<Token>& tokens) const override {
    const std::size_t before = tokens.size();
    if (static_cast<std::int64_t>(count_characters(word)) > longest_)
      return tokens.push_back({unknown_, {0, word.size()}});
    for (std::size_t at = 0; at < word.size();) {
      std::size_t length = 0;
      const std::int32_t id = (at == 0 ? starts_ : continuations_).longest(word.substr(at), length);
      if (id < 0) {
        tokens.resize(before);
        return tokens.push_back({unknown_, {0, word.size()}});
      }
      tokens.push_back({id, {at, at + length}});
      at += length;
    }
  }
  std::int32_t unknown() const override { return unknown_; }

 private:
  std::int32_t unknown_;
  std::int64_t longest_;
  PieceTrie starts_, continuations_;
};

class WordLevelModel final : public WordModel {
 public:
  WordLevelModel(Vocabulary given, const JsonNode& node)
      : WordModel(std::move(given)), unknown_(unknown_of(node, vocabulary())) {
    if (unknown_ < 0) node.fail("\"unk_token\" is missing");
  }
  void encode(std::string_view word, std::vector<Token>& tokens) const override {
    const std::int32_t id = vocabulary().find(word);
    tokens.push_back({id < 0 ? unknown_ : id, {0, word.size()}});
  }
  std::int32_t unknown() const override { return unknown_; }

 private:
  std::int32_t unknown_;
};

}  // namespace

std::vector<std::int32_t> WordModel::byte_pieces(bool wanted) const {
  std::vector<std::int32_t> ids;
  for (int byte = 0; wanted && byte < 256; ++byte) {
    ids.push_back(vocabulary_.find(fmt::format("<0x{:02X}>", byte)));
    if (ids.back() < 0) return {};
  }
  return ids;
}

std::unique_ptr<WordModel> read_word_piece(const JsonNode& node) {
  return std::make_unique<WordPieceModel>(Vocabulary::of_object(node.at("vocab")), node);
}

std::unique_ptr<WordModel> read_word_level(const JsonNode& node) {
  return std::make_unique<WordLevelModel>(Vocabulary::of_object(node.at("vocab")), node);
}

std::unique_ptr<WordModel> read_word_model(const JsonNode& node) {
  const bool merges = node.find("merges").has_value(), list = node.at("vocab").json().is_array();
  const std::string type = node.find("type") ? node.type() : merges ? "BPE" : list ? "Unigram" : "WordPiece";
  if (type == "BPE") return read_bpe(node);
  if (type == "Unigram") return read_unigram(node);
  if (type == "WordPiece") return read_word_piece(node);
  if (type == "WordLevel") return read_word_level(node);
  node.fail_unknown_type("model", "BPE, Unigram, WordPiece, WordLevel");
}

}  // namespace comera::data
