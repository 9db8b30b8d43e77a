// The settings that decide the memory of a training step, in the order in which they are given up when memory is short.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/core/options/options.h"

namespace comera::train {

// One setting of these options. `form` "": --form is not --form auto, and stays. Rank 0: that of the options.
struct MemoryChoice {
  std::string form = {};
  std::int64_t rank = 0, embedding_rank = 0;
  std::string activations = {}, optimizer = {};
  std::int64_t batch = 1, accumulate = 1;

  bool operator==(const MemoryChoice&) const = default;
  bool same_form(const MemoryChoice& other) const { return form == other.form && rank == other.rank; }
  // They differ in their micro-batches alone.
  bool same_policy(const MemoryChoice& other) const {
    return same_form(other) && activations == other.activations && optimizer == other.optimizer;
  }
};

// --form auto begins with these ranks in tensor-train form.
struct RankCeiling {
  std::int64_t rank = 0, embedding_rank = 0;
};

// The micro-batch of --batch is part of what is learned: a pair has the other pairs of its micro-batch as negatives.
bool keeps_batch(const OptionValues& values);

// Options that are free. open: those that the call does not give; all: also the given ones. The product of --batch and
// --accumulate is always kept, and both with keeps_batch().
enum class FreeOptions : std::uint8_t { open, all };

// All choices, best first. Exact means come first: all values kept, cheap ones computed again, smaller micro-batches.
// Then bf16 and int8 copies, blocks computed again, 8-bit moments, int4 copies without bias, projections. A form is
// given up last, rank by rank.
std::vector<MemoryChoice> memory_choices(const OptionValues& values, FreeOptions free, const RankCeiling& ceiling);
// One choice per row of that order, with the form and the batch of the options.
std::vector<MemoryChoice> memory_policies(const OptionValues& values);

// The choice that the options make now.
MemoryChoice current_choice(const OptionValues& values);
void apply(const MemoryChoice& choice, OptionValues& values);
// "--activations block,int8 --batch 4 --accumulate 8": the options in which `choice` differs from `from`.
std::string difference(const MemoryChoice& choice, const MemoryChoice& from);

}  // namespace comera::train
