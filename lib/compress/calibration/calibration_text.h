// Reads calibration text and groups it into batches for the model.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/compress/calibration/moments.h"
#include "lib/data/batch.h"
#include "lib/data/chat/chat_template.h"
#include "lib/data/files/format.h"
#include "lib/data/tokenizer/tokenizer.h"
#include "models/architecture.h"

namespace comera::compress {

struct Sequence {
  data::Ids ids;
  TextPart part = TextPart::fitted;
};

struct TextBatch {
  data::Batch batch;
  TextPart part = TextPart::fitted;
  std::vector<std::size_t> places = {};           // [B], of each row among the sequences that were batched
  std::span<const std::int32_t> lengths() const;  // tokens of each row without padding
};

// The number of tokens to read. `all`: upper limit; 0: read until `fitted` tokens are in fitted sequences. One eighth
// of the sequences is for choosing, one eighth for judging.
struct TextAmount {
  std::int64_t all = 0, fitted = 0;
};

std::int64_t widest_input(const models::ModelSpec& spec);  // of the linear layers

// The source of the text.
struct TextPlaces {
  std::vector<std::string> files;
  std::vector<std::string> columns;                          // of tables; empty: "text"
  std::optional<data::Format> format;                        // of all files; empty: from their names
  std::shared_ptr<const data::ChatTemplate> chat = nullptr;  // rows are conversations; null: they are texts
  std::string option = "[tensorize] --calibrate";            // for messages
};

// One line of a text file, or one text of a table's row, is one sequence of at most `length` tokens, including the
// tokens that the tokenizer adds around a text. A line longer than 256 KiB becomes one sequence per 256 KiB.
// InputError: too few lines.
std::vector<Sequence> read_sequences(const TextPlaces& places, const data::Tokenizer& tokenizer,
                                     const TextAmount& amount, std::int64_t length);
// Equal for equal tokens in equal sequences and parts.
std::string hash_of_tokens(const std::vector<Sequence>& sequences);
// About so many tokens of a part, in whole sequences from everywhere in it.
std::vector<Sequence> some_of(const std::vector<Sequence>& sequences, TextPart part, std::int64_t tokens);
// Returns nothing if the line is too short.
std::optional<data::Ids> sequence_of(std::string_view line, const data::Tokenizer& tokenizer, std::int64_t length);

constexpr std::int64_t tokens_of_batch = 2048;

// Groups sequences of similar length to reduce padding. A batch holds sequences of one part only.
std::vector<TextBatch> batches_of(const std::vector<Sequence>& sequences, const models::Spec& spec,
                                  std::int64_t most_tokens = tokens_of_batch);

}  // namespace comera::compress
