// Factors of bf16 products. The instructions add two products of neighbours along the inner dimension to each float. So
// a factor is read as words of two numbers, and the right factor is packed:
//   word(q, j) = (b[2 q, j], b[2 q + 1, j]), 2 q along the inner dimension.
// An odd inner dimension is filled with a zero.
#pragma once

#include <cstring>

#include "kernels/cpu/common/element.h"
#include "kernels/cpu/common/transpose.h"

namespace comera::kernels::COMERA_CPU {

using Word = std::uint32_t;

constexpr std::int64_t pairs_of(std::int64_t k) { return (k + 1) / 2; }

inline __m256i halves(const Bf16* x, All) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x)); }
inline __m256i halves(const Bf16* x, Some lanes) { return _mm256_maskz_loadu_epi16(first_lanes(lanes.n).v, x); }
inline void store_words(Word* to, __m512i words, All) { _mm512_storeu_si512(to, words); }
inline void store_words(Word* to, __m512i words, Some lanes) {
  _mm512_mask_storeu_epi32(to, first_lanes(lanes.n).v, words);
}

// The words of a right factor [k, n]: [pairs_of(k), n] at ld_to, columns j and j + 16 at a distance of `panel` if j is
// a multiple of 16. Short rows far apart, which the processor does not foresee, are prefetched `ahead` rows before.
template <std::int64_t ahead = 0>
inline void pack_pairs(std::int64_t k, std::int64_t n, const Bf16* from, std::int64_t ld, Word* to, std::int64_t ld_to,
                       std::int64_t panel = F::width) {
  for (std::int64_t q = 0; q < pairs_of(k); ++q) {
    const Bf16 *low = from + 2 * q * ld, *high = low + ld;
    const bool both = 2 * q + 1 < k;
    sweep(0, n, [&](std::int64_t j, auto lanes) {
      if constexpr (ahead > 0) {
        _mm_prefetch(reinterpret_cast<const char*>((j / F::width % 2 == 0 ? low : high) + ahead * ld + j), _MM_HINT_T0);
      }
      __m512i words = _mm512_cvtepu16_epi32(halves(low + j, lanes));
      if (both) words = _mm512_or_si512(words, _mm512_slli_epi32(_mm512_cvtepu16_epi32(halves(high + j, lanes)), 16));
      store_words(to + q * ld_to + j / F::width * panel, words, lanes);
    });
  }
}

// The words of the same factor, given as its transpose [n, k].
inline void pack_pairs_transposed(std::int64_t k, std::int64_t n, const Bf16* from, std::int64_t ld, Word* to,
                                  std::int64_t ld_to) {
  auto* const words = reinterpret_cast<float*>(to);  // moved, never computed with
  constexpr std::int64_t w = F::width;
  for (std::int64_t j = 0; j < n; j += w)
    for (std::int64_t q = 0; q < k / 2; q += w) {
      const std::int64_t height = min(w, n - j), width = min(w, k / 2 - q);
      F block[w];
      for (std::int64_t r = 0; r < w; ++r)
        block[r] = r < height ? load(reinterpret_cast<const float*>(from + (j + r) * ld + 2 * q), width) : zero();
      transpose_vectors(block);
      for (std::int64_t r = 0; r < width; ++r) store(words + (q + r) * ld_to + j, block[r], height);
    }
  if (k % 2 == 0) return;
  for (std::int64_t j = 0; j < n; ++j) to[k / 2 * ld_to + j] = from[j * ld + k - 1].bits;
}

// The words of a left factor: (i, q) at data + i * row + q * step, in bytes.
struct LeftWords {
  const char* data;
  std::int64_t row, step;
  LeftWords at(std::int64_t i, std::int64_t q) const { return {data + i * row + q * step, row, step}; }
};
// Rows [m, k] as they lie in memory; k is even.
inline LeftWords rows_of(const Bf16* a, std::int64_t ld) { return {reinterpret_cast<const char*>(a), ld * 2, 4}; }
// The transpose of a factor packed by pack_pairs: [pairs, m] at ld.
inline LeftWords columns_of(const Word* a, std::int64_t ld) { return {reinterpret_cast<const char*>(a), 4, ld * 4}; }

// The same for any k: with an odd one the rows are copied to [m, k + 1], with a zero at the end.
inline LeftWords rows_of(std::int64_t m, std::int64_t k, const Bf16* a, std::int64_t ld, Bf16* copy) {
  if (k % 2 == 0) return rows_of(a, ld);
  for (std::int64_t i = 0; i < m; ++i) {
    std::memcpy(copy + i * (k + 1), a + i * ld, static_cast<std::size_t>(k) * sizeof(Bf16));
    copy[i * (k + 1) + k] = {};
  }
  return rows_of(copy, k + 1);
}

// c [m, n] = or += a b over `pairs` words.
struct PairShape {
  std::int64_t m = 0, n = 0, pairs = 0;
  std::int64_t ldb = 0, ldc = 0;
  bool accumulate = false;
  std::int64_t panel = F::width;  // words of b between columns j and j + 16, j a multiple of 16
};

}  // namespace comera::kernels::COMERA_CPU
