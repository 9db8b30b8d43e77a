// Counter-based random numbers, Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"), and
// the dropout masks that are made from them. Everything is a pure function of its arguments, the same on every backend.
//
// Mask rule. Element (site, sample, token, feature) uses 16 bits: lane feature % 8 of the 128-bit block with the
// counter
//   { site + high32(sample) * 0x9E3779B9, low32(sample), token, feature / 8 }
// and the key mix(mix(seed) + step). Each step of a seed has its own key, and the key is bijective in either argument.
// Lane 2i is the low half of word i, lane 2i + 1 its high half. An element is dropped if its 16 bits are below round(p
// * 65536). Other elements are scaled by 1 / (1 - p_effective) with p_effective = round(p * 65536) / 65536. In
// attention, the feature is head * 2^20 + key.
#pragma once

#include "kernels/types.h"

#ifdef __CUDACC__
#define COMERA_HD __host__ __device__
#else
#define COMERA_HD
#endif

namespace comera::kernels {

struct PhiloxKey {
  std::uint32_t word[2];
};
struct PhiloxBlock {
  std::uint32_t word[4];
};

COMERA_HD constexpr PhiloxBlock philox4x32_10(PhiloxBlock counter, PhiloxKey key) {
  std::uint32_t c0 = counter.word[0], c1 = counter.word[1], c2 = counter.word[2], c3 = counter.word[3];
  std::uint32_t k0 = key.word[0], k1 = key.word[1];
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c0;
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * c2;
    c0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<std::uint32_t>(p1);
    c2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<std::uint32_t>(p0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

// Finaliser of SplitMix64 (Steele et al. 2014): a bijection in which each output bit depends on each input bit.
COMERA_HD constexpr std::uint64_t mix64(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

COMERA_HD constexpr PhiloxKey step_key(std::uint64_t seed, std::uint64_t step) {
  const std::uint64_t key = mix64(mix64(seed) + step);
  return {{static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)}};
}

// An element is dropped if its 16 bits are below this threshold.
COMERA_HD constexpr std::uint32_t drop_threshold(double probability) {
  return static_cast<std::uint32_t>(probability * 65536.0 + 0.5);
}

// Scale factor of the elements that are kept; 0 if all elements are dropped.
COMERA_HD constexpr double keep_scale(std::uint32_t threshold) {
  return threshold >= 65536u ? 0.0 : 65536.0 / (65536.0 - threshold);
}

COMERA_HD constexpr PhiloxBlock dropout_counter(std::uint32_t site, std::int64_t sample, std::uint32_t token,
                                                std::uint32_t block) {
  const std::uint64_t bits = static_cast<std::uint64_t>(sample);
  return {
      {site + static_cast<std::uint32_t>(bits >> 32) * 0x9E3779B9u, static_cast<std::uint32_t>(bits), token, block}};
}

COMERA_HD constexpr std::uint32_t lane16(const PhiloxBlock& block, std::uint32_t lane) {
  return (block.word[lane / 2] >> (lane % 2 * 16)) & 0xFFFFu;
}

COMERA_HD constexpr std::uint64_t attention_feature(std::int64_t head, std::int64_t key) {
  return (static_cast<std::uint64_t>(head) << 20) + static_cast<std::uint64_t>(key);
}

// The dropout of one step, computed from a Dropout. Without dropout, `threshold` is 0 and every factor is 1.
struct DropoutRule {
  PhiloxKey key{};
  std::uint32_t site = 0;
  std::uint32_t threshold = 0;
  double scale = 1;

  constexpr DropoutRule() = default;
  COMERA_HD constexpr explicit DropoutRule(const Dropout& dropout) {
    if (dropout.probability <= 0) return;
    key = step_key(dropout.scalars->seed, dropout.scalars->step);
    site = dropout.site;
    threshold = drop_threshold(dropout.probability);
    scale = keep_scale(threshold);
  }

  // The 16-bit lanes of features 8 * block .. 8 * block + 7.
  COMERA_HD constexpr PhiloxBlock bits(std::int64_t sample, std::int64_t token, std::uint64_t block) const {
    return philox4x32_10(
        dropout_counter(site, sample, static_cast<std::uint32_t>(token), static_cast<std::uint32_t>(block)), key);
  }
  // Returns the factor of the element: 0 or `scale`.
  COMERA_HD constexpr double factor(std::int64_t sample, std::int64_t token, std::uint64_t feature) const {
    if (threshold == 0) return 1;
    return lane16(bits(sample, token, feature / 8), static_cast<std::uint32_t>(feature % 8)) < threshold ? 0 : scale;
  }
};

}  // namespace comera::kernels
