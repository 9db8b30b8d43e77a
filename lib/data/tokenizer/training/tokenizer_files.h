// Writes learned vocabularies as tokenizer.json and tokenizer_config.json, which Hugging Face's `transformers` loads.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/data/tokenizer/tokenizer_train.h"
#include "lib/io/json.h"

namespace comera::data {

// In the order of their ids from 0: <pad> <unk>, then [CLS] [SEP] [MASK] or <s> </s>.
std::vector<std::string> special_pieces(TextFrame frame);

struct BpeVocabulary {
  std::vector<std::string> pieces;  // by id
  std::vector<std::pair<std::string, std::string>> merges;
};

io::Json byte_level_json();  // the pre-tokenizer: words of GPT-2, no blank is added before a text

std::string bpe_tokenizer_json(const BpeVocabulary& vocabulary, TextFrame frame);

// `vocab`: a vocab.txt of train_wordpiece().
std::string wordpiece_tokenizer_json(std::string_view vocab, LetterCase letter_case);

// `model`: a SentencePiece unigram model of train_sentencepiece(). Its table of characters becomes the normaliser.
// `tokenizers` and SentencePiece cut a few words differently, because they round sums of scores differently.
std::string unigram_tokenizer_json(std::string_view model, TextFrame frame);

// The tokenizer_config.json beside one of them, except for WordPiece.
std::string trained_tokenizer_config(TextFrame frame);

}  // namespace comera::data
