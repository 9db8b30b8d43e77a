// Physical removal of rank entries: cores, diagonals and moments are sliced alike, the model is built again with the smaller ranks.
#pragma once

#include "lib/train/chain_sizes.h"
#include "lib/train/step.h"

namespace comera::train {

// Ranks of every tensor train of the model when only `kept` stays (read_chains() order). A chain with an empty bond loses all of
// them: its layer becomes its bias.
layers::RankTable ranks_of(const Model& model, const Kept& kept);

// Removes everything but `kept`. Returns the number of entries removed; 0 leaves the engine alone.
std::int64_t remove_all_but(Engine& engine, const Kept& kept);

// out[a, m, b] = in[left[a], m, right[b]] of a tensor [r_left, middle, r_right] with elements of `element` bytes.
std::vector<std::byte> slice(std::span<const std::byte> in, std::size_t element, std::int64_t middle, std::int64_t r_right,
                             std::span<const std::int64_t> left, std::span<const std::int64_t> right);

}  // namespace comera::train
