// Trains tokenizers on text. The same texts and options give the same bytes.
#pragma once

#include <cstdint>
#include <functional>
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

using TakeText = std::function<void(std::string_view)>;

// Calls `take` with every text of the sample in the order of the files, without empty ones, and returns their number.
// Lines of more than 256 KiB come in parts. The files are read twice if the sample has a limit; memory is 16 bytes per
// text of the sample.
std::int64_t for_each_sampled_text(const SampleSpec& spec, const TakeText& take);

std::vector<std::string> sample_texts(const SampleSpec& spec);

// Gives all texts to learn from, one by one.
using TextSource = std::function<void(const TakeText&)>;

// What stands around a text. `encoder`: [CLS] text [SEP] with [MASK] in the vocabulary; `decoder`: <s> text, and </s>
// ends it.
enum class TextFrame : std::uint8_t { encoder, decoder };

struct TrainTokenizerOptions {
  std::int64_t vocab_size = 30522;  // largest size, special pieces included
  LetterCase letter_case = LetterCase::uncased;
  std::int64_t min_count = 2;     // WordPiece, byte-level BPE: pairs with a lower count are not merged
  std::int64_t alphabet = 1000;   // WordPiece: number of most frequent characters that get their own pieces
  std::string model = "unigram";  // SentencePiece: unigram or bpe
  TextFrame frame = TextFrame::encoder;
};

// Returns a vocab.txt: [PAD] [UNK] [CLS] [SEP] [MASK], the characters by code point, the same inside words (##), then
// the merges in order. Merges as in byte pair encoding (Sennrich et al. 2016): each step merges the most frequent pair
// of neighbours inside words; of equal pairs, the one whose pieces come first in the vocabulary. Hugging Face's
// WordPiece trainer uses the same rule.
std::string train_wordpiece(const TextSource& texts, const TrainTokenizerOptions& options);
std::string train_wordpiece(std::span<const std::string> texts, const TrainTokenizerOptions& options);

// Returns the tokenizer.json of a byte-level BPE: the special pieces of the frame, the 256 characters that stand for
// bytes by code point, then the merges in order, by the rule of train_wordpiece(). Words are those of GPT-2 (Radford et
// al. 2019); longer ones than 4096 bytes are not learned from.
std::string train_bpe(const TextSource& texts, const TrainTokenizerOptions& options);

// Returns a SentencePiece model with <pad> 0, <unk> 1, and the frame's pieces behind them. Small corpora may give fewer
// pieces than requested.
std::string train_sentencepiece(std::span<const std::string> texts, const TrainTokenizerOptions& options);

}  // namespace comera::data
