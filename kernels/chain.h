// Sizes of chains, for the ops on cores, on their factors and on ranks.
#pragma once

#include "kernels/types.h"

namespace comera::kernels {

constexpr int max_cores = 16;  // of a chain, 2d

// Ranks of left and right factors are padded with zeros to a multiple of this.
constexpr std::int64_t tt_rank_unit = 16;
constexpr std::int64_t padded_rank(std::int64_t rank) {
  return (rank + tt_rank_unit - 1) / tt_rank_unit * tt_rank_unit;
}

constexpr std::int64_t product_of(const std::int64_t* sizes, int first, int last) {
  std::int64_t product = 1;
  for (int i = first; i < last; ++i) product *= sizes[i];
  return product;
}

// Stored cores and the bonds between them.
struct BondedCores {
  int cores = 0;
  std::int64_t sizes[max_cores] = {};      // s_k: stored entries of a core per pair of rank indices
  std::int64_t ranks[max_cores + 1] = {};  // stored ranks, first and last 1
  const void* diagonals[max_cores] = {};   // cores - 1; null: ones
};

}  // namespace comera::kernels
