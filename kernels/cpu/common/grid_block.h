// Blocks of numbers on a grid (kernels/grids.h) as small integers: number i is scale * code[i] + least. `grid` is one
// in groups of 32: the codes of others are the same.
#pragma once

#include "kernels/cpu/common/code_lanes.h"

namespace comera::kernels::COMERA_CPU {

inline __m256i bytes_of(int value) { return _mm256_set1_epi8(static_cast<char>(value)); }

// 16 bytes with two codes each: first the low halves, then the high ones.
inline __m256i nibbles(const std::uint8_t* bytes) {
  const __m128i pairs = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes));
  return _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16(pairs, 4), pairs), bytes_of(15));
}

// Four codes of two bits per byte.
inline __m256i quarters(const std::uint8_t* bytes) {
  std::int64_t all = 0;
  __builtin_memcpy(&all, bytes, sizeof all);
  const __m256i each =
      _mm256_shuffle_epi8(_mm256_set1_epi64x(all), _mm256_setr_epi8(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3,  //
                                                                    4, 4, 4, 4, 5, 5, 5, 5, 6, 6, 6, 6, 7, 7, 7, 7));
  const auto part = [&](int shift, int mask) {
    return _mm256_and_si256(_mm256_srli_epi32(each, shift), _mm256_set1_epi32(mask));
  };
  return _mm256_or_si256(_mm256_or_si256(part(0, 3), part(2, 3 << 8)),
                         _mm256_or_si256(part(4, 3 << 16), part(6, 3 << 24)));
}

// Eight codes of three bits in each three bytes.
inline __m256i eighths(const std::uint8_t* bytes) {
  const __m256i fours = fours_of_triples(bytes, false);
  const auto part = [&](int shift, int mask) {
    return _mm256_and_si256(_mm256_slli_epi32(fours, shift), _mm256_set1_epi32(mask));
  };
  return _mm256_or_si256(_mm256_or_si256(part(0, 7), part(5, 7 << 8)),
                         _mm256_or_si256(part(10, 7 << 16), part(15, 7 << 24)));
}

template <Grid grid>
struct CodedBlock {
  float scale, least = 0;
  alignas(32) std::int8_t code[grid_block];

  explicit CodedBlock(const GridBlock& block) : scale(half_number(block.step)) {
    __m256i codes;
    if constexpr (grid == Grid::q8_0) {
      codes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(block.codes));
    } else if constexpr (grid == Grid::q4_1) {
      least = half_number(block.step + 2);
      codes = nibbles(block.codes);
    } else if constexpr (grid == Grid::q4_0) {
      codes = _mm256_sub_epi8(nibbles(block.codes), bytes_of(8));
    } else {
      // d (c - 3.5) = (d / 2) (2 c - 7)
      codes = grid == Grid::q3_0 ? eighths(block.codes) : quarters(block.codes);
      codes = _mm256_sub_epi8(_mm256_add_epi8(codes, codes), bytes_of(grid == Grid::q3_0 ? 7 : 3));
      scale *= 0.5f;
    }
    _mm256_store_si256(reinterpret_cast<__m256i*>(code), codes);
  }

  F codes(int i) const { return to_float(load_signed_bytes(code + i)); }
  F numbers(int i) const { return fma(codes(i), set(scale), set(least)); }
};

// Calls visit.operator()<grid>() for the codes of a call's grid.
template <class Visit>
void with_codes(Grid grid, Visit visit) {
  switch (code_grid(grid)) {
    case Grid::q8_0: return visit.template operator()<Grid::q8_0>();
    case Grid::q4_1: return visit.template operator()<Grid::q4_1>();
    case Grid::q3_0: return visit.template operator()<Grid::q3_0>();
    case Grid::q2_0: return visit.template operator()<Grid::q2_0>();
    default: return visit.template operator()<Grid::q4_0>();
  }
}

}  // namespace comera::kernels::COMERA_CPU
