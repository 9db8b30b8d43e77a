// Ranks below which adaptation does not take a layer (--rank-floor). Without a floor a layer whose entries are worth
// less than its neighbours' loses a whole bond, and becomes its bias.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "lib/train/chain_sizes.h"

namespace comera::train {

struct RankFloor {
  std::string glob;       // of names of layers; "": all
  std::int64_t rank = 0;  // entries that each inner bond keeps, as far as it has them
};

// Parses "R" and "GLOB=R". InputError for anything else.
std::vector<RankFloor> parse_rank_floors(const std::vector<std::string>& words);

// Sets `floor` of every chain: the rank of the last rule that matches. InputError if a rule matches no chain.
void set_floors(std::span<ChainDiagonals> chains, std::span<const RankFloor> floors);

// Raises the largest entries of each bond to just above the threshold where fewer than the floor are above it: entries
// at or below the threshold count as 0 in the model. True if an entry was raised.
bool raise_to_floors(const Weights& weights, std::span<const RankFloor> floors, double threshold);

}  // namespace comera::train
