// Converts sequences of a window into the named tensors of a batch.
#pragma once

#include <span>

#include "lib/data/batch.h"
#include "lib/data/window.h"

namespace comera::data {

constexpr std::int64_t round_up_length(std::int64_t length) { return (length + 7) / 8 * 8; }

struct MaskRule {
  double probability = 0;
  std::uint64_t seed = 0;
  // By id: the piece goes on with the word of the piece before it. Not null: words are masked as a whole.
  const std::vector<bool>* goes_on = nullptr;
};

// Fills `batch` with the sequences. They are padded to the longest length, rounded up to a multiple of 8.
void collate(const Window& window, std::span<const Sequence> sequences, const Tokenizer& tokenizer,
             const MaskRule& rule, Batch& batch);

// Chooses max(1, round(probability * n)) of the n tokens in `ids` that are not special: those with the smallest draws
// of (seed, sample, position). `positions` is ascending. 80 % of the chosen tokens become [MASK], 10 % a random
// piece, and 10 % stay (Devlin et al. 2019, section 3.1). With rule.goes_on, words are drawn instead of tokens, and
// those that exceed the number are left out, so that at most that number of tokens is chosen. `ids` is changed in
// place; `targets` holds the original ids.
void mask_tokens(std::span<std::int32_t> ids, std::int64_t sample, const Tokenizer& tokenizer, const MaskRule& rule,
                 std::vector<std::int32_t>& positions, std::vector<std::int32_t>& targets);

}  // namespace comera::data
