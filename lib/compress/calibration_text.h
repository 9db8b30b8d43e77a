// Calibration text as the batches that a model runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/data/batch.h"
#include "lib/data/tokenizer.h"
#include "models/architecture.h"

namespace comera::compress {

struct TextBatch {
  data::Batch batch;
  bool held = false;                              // held out: what was fitted is judged by it
  std::span<const std::int32_t> lengths() const;  // tokens of each row that count
};

// How many tokens to read: at most `all`, or (0) until `fitted` of them are in sequences that are not held out. A quarter of the sequences is.
struct TextAmount {
  std::int64_t all = 0, fitted = 0;
};

// One line of a file is one sequence of at most `length` tokens, with the pieces that the tokenizer puts around a text. Sequences of like length
// are together, so that little is padded; fitted and held-out ones never are. InputError: too few lines.
std::vector<TextBatch> read_calibration_text(const std::vector<std::string>& files, const data::Tokenizer& tokenizer, const TextAmount& amount,
                                             std::int64_t length, const models::Spec& spec);

}  // namespace comera::compress
