// Dropout masks of many Philox blocks at once: the bits of kernels/philox.h, one byte per block of 8 features.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/common/simd.h"
#include "kernels/philox.h"

namespace comera::kernels::COMERA_CPU {

// keep_bits computes blocks in multiples of this. Its output must have room for a whole multiple.
constexpr std::int64_t philox_group = 16;
constexpr std::int64_t keep_bytes(std::int64_t blocks) { return tiles_of(blocks, philox_group) * philox_group; }

#if defined(__AVX512F__)

using Words = __m512i;
// Lanes per vector. Each word is in the low half of 64 bits, the input of the widening product.
constexpr int philox_lanes = 8;
inline Words broadcast(std::uint32_t x) { return _mm512_set1_epi64(x); }
inline Words product(Words a, Words b) { return _mm512_mul_epu32(a, b); }
inline Words high_word(Words a) { return _mm512_srli_epi64(a, 32); }
inline Words xor3(Words a, Words b, Words c) { return _mm512_ternarylogic_epi64(a, b, c, 0x96); }
inline Words pair(Words low, Words high) { return _mm512_mask_blend_epi32(0xAAAA, low, _mm512_slli_epi64(high, 32)); }
// Lane order that makes the unpacking below put the blocks in sequence.
inline Words block_numbers(std::uint32_t first) {
  return _mm512_add_epi64(_mm512_set1_epi64(first), _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7));
}
inline void store_keep(Words w01, Words w23, std::uint32_t threshold, std::uint8_t* out) {
  const __m512i limit = _mm512_set1_epi16(static_cast<short>(threshold));
  const std::uint64_t low = _mm512_cmpge_epu16_mask(_mm512_unpacklo_epi64(w01, w23), limit);
  const std::uint64_t high = _mm512_cmpge_epu16_mask(_mm512_unpackhi_epi64(w01, w23), limit);
  _mm_storel_epi64(reinterpret_cast<__m128i*>(out), _mm_cvtsi64_si128(static_cast<long long>(low | high << 32)));
}

#else

using Words = __m256i;
constexpr int philox_lanes = 4;
inline Words broadcast(std::uint32_t x) { return _mm256_set1_epi64x(x); }
inline Words product(Words a, Words b) { return _mm256_mul_epu32(a, b); }
inline Words high_word(Words a) { return _mm256_srli_epi64(a, 32); }
inline Words xor3(Words a, Words b, Words c) { return _mm256_xor_si256(a, _mm256_xor_si256(b, c)); }
inline Words pair(Words low, Words high) { return _mm256_blend_epi32(low, _mm256_slli_epi64(high, 32), 0xAA); }
inline Words block_numbers(std::uint32_t first) {
  return _mm256_add_epi64(_mm256_set1_epi64x(first), _mm256_setr_epi64x(0, 1, 2, 3));
}
inline void store_keep(Words w01, Words w23, std::uint32_t threshold, std::uint8_t* out) {
  const __m256i limit = _mm256_set1_epi16(static_cast<short>(threshold));
  const __m256i low = _mm256_unpacklo_epi64(w01, w23);
  const __m256i high = _mm256_unpackhi_epi64(w01, w23);
  const __m256i keep = _mm256_packs_epi16(_mm256_cmpeq_epi16(_mm256_max_epu16(low, limit), low),
                                          _mm256_cmpeq_epi16(_mm256_max_epu16(high, limit), high));
  _mm_storeu_si32(out, _mm_cvtsi32_si128(_mm256_movemask_epi8(keep)));
}

#endif

// Handles two vectors of blocks at a time, so that the products of one overlap the latency of the other.
inline void philox_keep(const DropoutRule& rule, const PhiloxBlock& counter, std::uint8_t* out) {
  const Words m0 = broadcast(0xD2511F53u), m1 = broadcast(0xCD9E8D57u);
  Words c0[2], c1[2], c2[2], c3[2];
  for (int i = 0; i < 2; ++i) {
    c0[i] = broadcast(counter.word[0]);
    c1[i] = broadcast(counter.word[1]);
    c2[i] = broadcast(counter.word[2]);
    c3[i] = block_numbers(counter.word[3] + static_cast<std::uint32_t>(i * philox_lanes));
  }
  std::uint32_t k0 = rule.key.word[0], k1 = rule.key.word[1];
  for (int round = 0; round < 10; ++round) {
    const Words key0 = broadcast(k0), key1 = broadcast(k1);
    for (int i = 0; i < 2; ++i) {
      const Words p0 = product(c0[i], m0), p1 = product(c2[i], m1);
      c0[i] = xor3(high_word(p1), c1[i], key0);
      c1[i] = p1;
      c2[i] = xor3(high_word(p0), c3[i], key1);
      c3[i] = p0;
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  for (int i = 0; i < 2; ++i)
    store_keep(pair(c0[i], c1[i]), pair(c2[i], c3[i]), rule.threshold, out + i * philox_lanes);
}

// Sets bit f % 8 of out[f / 8 - first_block] if feature f of (sample, token) is kept, for `blocks` blocks of 8 features
// from first_block on. `out` has room for keep_bytes(blocks). Requires rule.threshold > 0.
inline void keep_bits(const DropoutRule& rule, std::int64_t sample, std::int64_t token, std::uint64_t first_block,
                      std::int64_t blocks, std::uint8_t* out) {
  if (rule.threshold > 65535u) {
    for (std::int64_t i = 0; i < blocks; ++i) out[i] = 0;
    return;
  }
  for (std::int64_t i = 0; i < blocks; i += 2 * philox_lanes) {
    philox_keep(rule,
                dropout_counter(rule.site, sample, static_cast<std::uint32_t>(token),
                                static_cast<std::uint32_t>(first_block + static_cast<std::uint64_t>(i))),
                out + i);
  }
}

// Mask from F::width / 8 bytes: lane i is set if bit i is set.
inline Mask mask_of(const std::uint8_t* bits) {
#if defined(__AVX512F__)
  return {static_cast<__mmask16>(bits[0] | bits[1] << 8)};
#else
  const __m256i lane = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  return {_mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(bits[0]), lane), lane))};
#endif
}

}  // namespace comera::kernels::COMERA_CPU
