// Generates text with a decoder, one token at a time: the most probable token, or one drawn by its probability.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "lib/data/tokenizer/tokenizer.h"
#include "lib/engine/engine.h"

namespace comera::engine {

struct GenerateOptions {
  double temperature = 0;  // of the softmax for sampling; 0: the most probable token
  // Samples among the fewest tokens whose probabilities sum up to this (Holtzman et al. 2020, arXiv 1904.09751).
  double top_p = 1;
  std::uint64_t seed = 0;
  std::int64_t max_tokens = 128;
  std::int64_t positions = 0;      // longest text that the model supports, prompt included
  std::vector<std::int64_t> ends;  // ids that end a text
  bool cache = true;               // false: every token reads the whole text again
};

struct Generated {
  data::Ids ids;                           // without the prompt and the id that ended the text
  bool ended = false;                      // false: a limit of positions or tokens ended the text
  double prompt_seconds = 0, seconds = 0;  // for the prompt; for all tokens after it
};

// `prompt` has at least one id. `number` separates texts of one seed. Throws InputError if the prompt leaves no room.
// `each` is called with every id as soon as it is chosen.
Generated generate(Engine& engine, const data::Ids& prompt, std::uint64_t number, const GenerateOptions& options,
                   const std::function<void(std::int32_t)>& each = {});

// Returns the next id: the first of the largest logits, or a draw that depends only on (seed, number, position).
std::int32_t choose(std::span<const double> logits, std::uint64_t number, std::int64_t position,
                    const GenerateOptions& options);

// Fills a batch that requests the logits of row `last` of one text: ids [begin, end) of `ids`. With `capacity` > 0,
// they follow `begin` ids in a cache of that many rows.
void fill_generation_batch(data::Batch& batch, std::span<const std::int32_t> ids, std::int64_t begin,
                           std::int64_t capacity);

}  // namespace comera::engine
