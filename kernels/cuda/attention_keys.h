// Selects the keys that a query attends to and that dropout keeps: for attention on CUDA cores and on tensor cores.
#pragma once

#include "kernels/attention.h"
#include "kernels/cuda/dropout.h"
#include "kernels/cuda/reduce.h"

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

// A rule whose key the compiler takes for new each time: else it keeps the ten rounds' keys in registers for as long as
// a loop lasts.
COMERA_DEVICE DropoutRule renewed(DropoutRule rule) {
  for (std::uint32_t& word : rule.key.word) asm volatile("" : "+r"(word));
  return rule;
}

// The mask of 8 neighbouring keys, from a multiple of 8 on, that dropout keeps: bit i for key first + i.
COMERA_DEVICE unsigned kept_keys(const DropoutRule& rule, std::int64_t sample, std::int64_t query, std::int64_t head,
                                 std::int64_t first) {
  const PhiloxBlock bits = rule.bits(sample, query, attention_feature(head, first) / 8);
  unsigned kept = 0;
  for (std::uint32_t i = 0; i < 8; ++i) kept |= (lane16(bits, i) < rule.threshold ? 0u : 1u) << i;
  return kept;
}

// The keys that any of `rows` queries attends to, from the first to the last of them; the same for every lane of a
// warp.
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
