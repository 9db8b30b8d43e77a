// Selects the keys that a query attends to and that dropout keeps: for attention on CUDA cores and on tensor cores.
#pragma once

#include "kernels/attention.h"
#include "kernels/cuda/common/dropout.h"
#include "kernels/cuda/common/reduce.h"

namespace comera::kernels::cuda {

constexpr float minus_infinity = -__builtin_huge_valf();

// The keys of a query.
struct KeyRange {
  std::int64_t begin, end;
  COMERA_DEVICE bool has(std::int64_t key) const { return begin <= key && key < end; }
  COMERA_DEVICE bool empty() const { return begin >= end; }
};
COMERA_DEVICE KeyRange range_of(const AttentionShape& s, std::int64_t batch, std::int64_t query) {
  if (query >= s.queries) return {0, 0};
  const std::int64_t at = batch * s.queries + query;
  const std::int64_t begin = s.key_begin ? s.key_begin[at] : 0, end = s.key_end ? s.key_end[at] : s.keys;
  return {begin < 0 ? 0 : begin, end > s.keys ? s.keys : end};
}

// Returns the rule with a key that the compiler must treat as new. Otherwise it keeps the keys of all ten Philox
// rounds in registers during a whole loop.
COMERA_DEVICE DropoutRule renewed(DropoutRule rule) {
  for (std::uint32_t& word : rule.key.word) asm volatile("" : "+r"(word));
  return rule;
}

// Bit i is set if dropout keeps key first + i, for 8 neighbouring keys. `first` is a multiple of 8.
COMERA_DEVICE unsigned kept_keys(const DropoutRule& rule, std::int64_t sample, std::int64_t query, std::int64_t head,
                                 std::int64_t first) {
  const PhiloxBlock bits = rule.bits(sample, query, attention_feature(head, first) / 8);
  unsigned kept = 0;
  for (std::uint32_t i = 0; i < 8; ++i) kept |= (lane16(bits, i) < rule.threshold ? 0u : 1u) << i;
  return kept;
}

// The smallest range that covers the keys of all `rows` queries from `first` on. Every lane of a warp gets the same
// result.
__device__ inline KeyRange joined_ranges(const AttentionShape& s, std::int64_t batch, std::int64_t first, int rows) {
  std::int64_t begin = s.keys, end = 0;
  for (int i = static_cast<int>(threadIdx.x) % warp_size; i < rows; i += warp_size) {
    const KeyRange range = range_of(s, batch, first + i);
    if (range.empty()) continue;
    begin = begin < range.begin ? begin : range.begin;
    end = end > range.end ? end : range.end;
  }
  return {-reduce_warp(-begin, Larger{}), reduce_warp(end, Larger{})};
}

}  // namespace comera::kernels::cuda
