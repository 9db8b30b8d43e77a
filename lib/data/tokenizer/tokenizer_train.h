// Trains tokenizers on text. The same texts and options give the same bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/data/files/format.h"
#include "lib/data/tokenizer/tokenizer.h"

namespace comera::data {

struct SampleSpec {
  std::vector<std::string> files;    // paths or globs; text, CSV, TSV, JSONL; plain, .gz or .zst
  std::optional<Format> format;      // of all files; none: by their names
  std::vector<std::string> columns;  // of tables; none: "text"
  std::int64_t lines = 1000000;      // at most this many texts, drawn uniformly by counter from the seed; 0: all
  std::uint64_t seed = 0;
};

// Returns the texts in the order of the files, without empty ones. Lines of more than 256 KiB come in parts. Memory is
// that of the sample, for any size of the corpus.
std::vector<std::string> sample_texts(const SampleSpec& spec);

struct TrainTokenizerOptions {
  std::int64_t vocab_size = 30522;  // largest size, special pieces included
  LetterCase letter_case = LetterCase::uncased;
  std::int64_t min_count = 2;     // WordPiece: pairs with a lower count are not merged
  std::int64_t alphabet = 1000;   // WordPiece: number of most frequent characters that get their own pieces
  std::string model = "unigram";  // SentencePiece: unigram or bpe
};

// Returns a vocab.txt: [PAD] [UNK] [CLS] [SEP] [MASK], the characters by code point, the same inside words (##), then
// the merges in order. Merges as in byte pair encoding (Sennrich et al. 2016): each step merges the most frequent pair
// of neighbours inside words; of equal pairs, the one whose pieces come first in the vocabulary. Hugging Face's
// WordPiece trainer uses the same rule.
std::string train_wordpiece(std::span<const std::string> texts, const TrainTokenizerOptions& options);

// Returns a SentencePiece model with <pad> 0, <unk> 1, [CLS] 2, [SEP] 3, [MASK] 4. Small corpora may give fewer pieces
// than requested.
std::string train_sentencepiece(std::span<const std::string> texts, const TrainTokenizerOptions& options);

}  // namespace comera::data
