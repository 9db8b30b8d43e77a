// Products of words (pairs.h) by the instruction VDPBF16PS: a word of the left factor is broadcast and multiplied by
// rows of words of the right one; sums of 16 floats stay in registers.
#pragma once

#include "kernels/cpu/bf16/pairs.h"

namespace comera::kernels::COMERA_CPU {

inline __m512bh words_at(const Word* b, All) { return __builtin_bit_cast(__m512bh, _mm512_loadu_si512(b)); }
inline __m512bh words_at(const Word* b, Some lanes) {
  return __builtin_bit_cast(__m512bh, _mm512_maskz_loadu_epi32(first_lanes(lanes.n).v, b));
}
inline __m512bh broadcast(const char* word) {
  int both = 0;
  __builtin_memcpy(&both, word, sizeof both);
  return __builtin_bit_cast(__m512bh, _mm512_set1_epi32(both));
}

// Computes `rows` x (vectors of 16) of c, which stay in registers. `last` is the lanes of the last vector.
template <int rows, int vectors, bool accumulate, class Lanes>
inline void pair_tile(const PairShape& s, LeftWords a, const Word* b, float* c, Lanes last) {
  constexpr int w = F::width, end = vectors - 1;
  __m512 sum[rows][vectors];
  for (int r = 0; r < rows; ++r) {
    for (int v = 0; v < end; ++v) sum[r][v] = accumulate ? load(c + r * s.ldc + v * w).v : _mm512_setzero_ps();
    sum[r][end] = accumulate ? load(c + r * s.ldc + end * w, last).v : _mm512_setzero_ps();
  }
  for (std::int64_t q = 0; q < s.pairs; ++q, b += s.ldb, a.data += a.step) {
    __m512bh right[vectors];
    for (int v = 0; v < end; ++v) right[v] = words_at(b + v * w, All{});
    right[end] = words_at(b + end * w, last);
    for (int r = 0; r < rows; ++r) {
      const __m512bh left = broadcast(a.data + r * a.row);
      for (int v = 0; v < vectors; ++v) sum[r][v] = _mm512_dpbf16_ps(sum[r][v], left, right[v]);
    }
  }
  for (int r = 0; r < rows; ++r) {
    for (int v = 0; v < end; ++v) store(c + r * s.ldc + v * w, F{sum[r][v]});
    store(c + r * s.ldc + end * w, F{sum[r][end]}, last);
  }
}

// `rows` is as large as the registers allow.
template <int rows, int vectors, bool accumulate, class Lanes>
inline void pair_columns(const PairShape& s, const LeftWords& a, const Word* b, float* c, Lanes last) {
  std::int64_t i = 0;
  for (; i + rows <= s.m; i += rows) pair_tile<rows, vectors, accumulate>(s, a.at(i, 0), b, c + i * s.ldc, last);
  for (; i + 4 <= s.m; i += 4) pair_tile<4, vectors, accumulate>(s, a.at(i, 0), b, c + i * s.ldc, last);
  for (; i < s.m; ++i) pair_tile<1, vectors, accumulate>(s, a.at(i, 0), b, c + i * s.ldc, last);
}

template <bool accumulate>
inline void pair_strips(const PairShape& s, const LeftWords& a, const Word* b, float* c) {
  constexpr std::int64_t w = F::width;
  std::int64_t j = 0;
  for (; j + 4 * w <= s.n; j += 4 * w) pair_columns<6, 4, accumulate>(s, a, b + j, c + j, All{});
  for (; j + 2 * w <= s.n; j += 2 * w) pair_columns<12, 2, accumulate>(s, a, b + j, c + j, All{});
  for (; j + w <= s.n; j += w) pair_columns<12, 1, accumulate>(s, a, b + j, c + j, All{});
  if (j < s.n) pair_columns<12, 1, accumulate>(s, a, b + j, c + j, Some{s.n - j});
}

inline void multiply_in_registers(const PairShape& s, const LeftWords& a, const Word* b, float* c) {
  s.accumulate ? pair_strips<true>(s, a, b, c) : pair_strips<false>(s, a, b, c);
}

}  // namespace comera::kernels::COMERA_CPU
