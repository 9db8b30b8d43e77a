// Models of tokenizer.json: they turn a word into tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "lib/data/tokenizer/pipeline/aligned_text.h"
#include "lib/data/tokenizer/pipeline/json_node.h"
#include "lib/data/tokenizer/pipeline/vocabulary.h"

namespace comera::data {

struct Token {
  std::int32_t id = 0;
  Span span;  // bytes of the word
};

// Every method may be called from several threads.
class WordModel {
 public:
  explicit WordModel(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}
  virtual ~WordModel() = default;

  // Appends the tokens of a word (valid UTF-8, not empty).
  virtual void encode(std::string_view word, std::vector<Token>& tokens) const = 0;
  // The piece for what is not in the vocabulary; -1 if there is none.
  virtual std::int32_t unknown() const = 0;
  const Vocabulary& vocabulary() const { return vocabulary_; }

 protected:
  // Ids of <0x00> to <0xFF>; empty unless all are pieces or `wanted` is false.
  std::vector<std::int32_t> byte_pieces(bool wanted) const;

 private:
  Vocabulary vocabulary_;
};

// Byte pair encoding (Sennrich et al. 2016): of all neighbours, the pair that was learned first is merged first.
std::unique_ptr<WordModel> read_bpe(const JsonNode& node);
// The most likely split under independent pieces (Kudo 2018).
std::unique_ptr<WordModel> read_unigram(const JsonNode& node);
// Greedy longest pieces (Wu et al. 2016), and whole words.
std::unique_ptr<WordModel> read_word_piece(const JsonNode& node);
std::unique_ptr<WordModel> read_word_level(const JsonNode& node);

// By the member "type" (older files leave it out). Another type is an InputError that names it.
std::unique_ptr<WordModel> read_word_model(const JsonNode& node);

}  // namespace comera::data
