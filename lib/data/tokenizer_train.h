// Tokenizers learned from text. The same texts and options give the same bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/data/format.h"
#include "lib/data/tokenizer.h"

namespace comera::data {

struct SampleSpec {
  std::vector<std::string> files;    // paths or globs; text, CSV, TSV, JSONL; plain, .gz or .zst
  std::optional<Format> format;      // of all files; none: by their names
  std::vector<std::string> columns;  // of tables; none: "text"
  std::int64_t lines = 1000000;      // at most this many texts, each equally likely, by counter from the seed; 0: all
  std::uint64_t seed = 0;
};

// The texts in the order of the files, lines of more than 256 KiB in parts; empty ones are left out. Memory: the
// sample, whatever the size of the corpus.
std::vector<std::string> sample_texts(const SampleSpec& spec);

struct TrainTokenizerOptions {
  std::int64_t vocab_size = 30522;  // at most, special pieces included
  LetterCase letter_case = LetterCase::uncased;
  std::int64_t min_count = 2;     // WordPiece: pairs that are rarer are not merged
  std::int64_t alphabet = 1000;   // WordPiece: the most frequent characters that get pieces of their own
  std::string model = "unigram";  // SentencePiece: unigram or bpe
};

// A vocab.txt: [PAD] [UNK] [CLS] [SEP] [MASK], the characters by code point, the same inside words (##), then the
// merges in order. Pieces are merged as in byte pair encoding (Sennrich et al. 2016): again and again the most frequent
// pair of neighbours inside words, of equals the one whose pieces stand first in the vocabulary. Hugging Face's
// WordPiece trainer chooses in the same way.
std::string train_wordpiece(std::span<const std::string> texts, const TrainTokenizerOptions& options);

// A SentencePiece model with <pad> 0, <unk> 1, [CLS] 2, [SEP] 3, [MASK] 4. Small corpora may give fewer pieces than
// asked for.
std::string train_sentencepiece(std::span<const std::string> texts, const TrainTokenizerOptions& options);

}  // namespace comera::data
