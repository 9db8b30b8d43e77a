// Transposes blocks in registers, because products read their right operand row by row.
#pragma once

#include "kernels/cpu/common/simd.h"

namespace comera::kernels::COMERA_CPU {

// Within each 128-bit lane L, out[4 g + c] holds rows 4 g .. 4 g + 3 of column 4 L + c.
inline void transpose_quads(const F* row, F* out) {
#if defined(__AVX512F__)
  for (int g = 0; g < F::width; g += 4) {
    const __m512d low01 = _mm512_castps_pd(_mm512_unpacklo_ps(row[g].v, row[g + 1].v));
    const __m512d high01 = _mm512_castps_pd(_mm512_unpackhi_ps(row[g].v, row[g + 1].v));
    const __m512d low23 = _mm512_castps_pd(_mm512_unpacklo_ps(row[g + 2].v, row[g + 3].v));
    const __m512d high23 = _mm512_castps_pd(_mm512_unpackhi_ps(row[g + 2].v, row[g + 3].v));
    out[g] = {_mm512_castpd_ps(_mm512_unpacklo_pd(low01, low23))};
    out[g + 1] = {_mm512_castpd_ps(_mm512_unpackhi_pd(low01, low23))};
    out[g + 2] = {_mm512_castpd_ps(_mm512_unpacklo_pd(high01, high23))};
    out[g + 3] = {_mm512_castpd_ps(_mm512_unpackhi_pd(high01, high23))};
  }
#else
  for (int g = 0; g < F::width; g += 4) {
    const __m256d low01 = _mm256_castps_pd(_mm256_unpacklo_ps(row[g].v, row[g + 1].v));
    const __m256d high01 = _mm256_castps_pd(_mm256_unpackhi_ps(row[g].v, row[g + 1].v));
    const __m256d low23 = _mm256_castps_pd(_mm256_unpacklo_ps(row[g + 2].v, row[g + 3].v));
    const __m256d high23 = _mm256_castps_pd(_mm256_unpackhi_ps(row[g + 2].v, row[g + 3].v));
    out[g] = {_mm256_castpd_ps(_mm256_unpacklo_pd(low01, low23))};
    out[g + 1] = {_mm256_castpd_ps(_mm256_unpackhi_pd(low01, low23))};
    out[g + 2] = {_mm256_castpd_ps(_mm256_unpacklo_pd(high01, high23))};
    out[g + 3] = {_mm256_castpd_ps(_mm256_unpackhi_pd(high01, high23))};
  }
#endif
}

// Transposes F::width rows of F::width columns in place.
inline void transpose_vectors(F* row) {
  F quad[F::width];
  transpose_quads(row, quad);
  for (int c = 0; c < 4; ++c) {
#if defined(__AVX512F__)
    const __m512 a = quad[c].v, b = quad[4 + c].v, d = quad[8 + c].v, e = quad[12 + c].v;
    const __m512 even_low = _mm512_shuffle_f32x4(a, b, 0x88), even_high = _mm512_shuffle_f32x4(d, e, 0x88);
    const __m512 odd_low = _mm512_shuffle_f32x4(a, b, 0xdd), odd_high = _mm512_shuffle_f32x4(d, e, 0xdd);
    row[c] = {_mm512_shuffle_f32x4(even_low, even_high, 0x88)};
    row[4 + c] = {_mm512_shuffle_f32x4(odd_low, odd_high, 0x88)};
    row[8 + c] = {_mm512_shuffle_f32x4(even_low, even_high, 0xdd)};
    row[12 + c] = {_mm512_shuffle_f32x4(odd_low, odd_high, 0xdd)};
#else
    row[c] = {_mm256_permute2f128_ps(quad[c].v, quad[4 + c].v, 0x20)};
    row[4 + c] = {_mm256_permute2f128_ps(quad[c].v, quad[4 + c].v, 0x31)};
#endif
  }
}

// y[j, i] = x[i, j] for x [rows, columns].
template <class X>
void transpose(std::int64_t rows, std::int64_t columns, const X* x, std::int64_t ldx, float* y, std::int64_t ldy) {
  constexpr std::int64_t w = F::width;
  for (std::int64_t i = 0; i < rows; i += w)
    for (std::int64_t j = 0; j < columns; j += w) {
      const std::int64_t height = min(w, rows - i), width = min(w, columns - j);
      F block[w];
      for (std::int64_t r = 0; r < w; ++r) block[r] = r < height ? load(x + (i + r) * ldx + j, width) : zero();
      transpose_vectors(block);
      for (std::int64_t r = 0; r < width; ++r) store(y + (j + r) * ldy + i, block[r], height);
    }
}

template <class X, class Y>
void copy_block(std::int64_t rows, std::int64_t columns, const X* x, std::int64_t ldx, Y* y, std::int64_t ldy) {
  for (std::int64_t i = 0; i < rows; ++i, x += ldx, y += ldy)
    for (std::int64_t j = 0; j < columns; j += F::width) {
      const std::int64_t lanes = min<std::int64_t>(F::width, columns - j);
      store(y + j, load(x + j, lanes), lanes);
    }
}

}  // namespace comera::kernels::COMERA_CPU
