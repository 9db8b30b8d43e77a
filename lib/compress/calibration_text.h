// Calibration text as the batches that a model runs.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/compress/moments.h"
#include "lib/data/batch.h"
#include "lib/data/format.h"
#include "lib/data/tokenizer.h"
#include "models/architecture.h"

namespace comera::compress {

struct Sequence {
  data::Ids ids;
  TextPart part = TextPart::fitted;
};

struct TextBatch {
  data::Batch batch;
  TextPart part = TextPart::fitted;
  std::span<const std::int32_t> lengths() const;  // tokens of each row that count
};

// How many tokens to read: at most `all`, or (0) until `fitted` of them are in sequences that are fitted. An eighth of
// the sequences chooses, an eighth judges.
struct TextAmount {
  std::int64_t all = 0, fitted = 0;
};

std::int64_t widest_input(const models::ModelSpec& spec);  // of its linear layers

// The place of the text.
struct TextPlaces {
  std::vector<std::string> files;
  std::vector<std::string> columns;    // of tables; none: "text"
  std::optional<data::Format> format;  // of all files; none: by their names
};

// One line of a text file (of one longer than 256 KiB each part), or one text of a table's row, is one sequence of at
// most `length` tokens, with the pieces that the tokenizer puts around a text. InputError: too few lines.
std::vector<Sequence> read_sequences(const TextPlaces& places, const data::Tokenizer& tokenizer,
                                     const TextAmount& amount, std::int64_t length);
// Nothing where the line is too short to count.
std::optional<data::Ids> sequence_of(std::string_view line, const data::Tokenizer& tokenizer, std::int64_t length);

// Sequences of like length are together, so that little is padded; those of different parts never are.
std::vector<TextBatch> batches_of(std::vector<Sequence> sequences, const models::Spec& spec,
                                  std::int64_t most_tokens = 2048);

}  // namespace comera::compress
