// Blocks of numbers on a grid (kernels/grids.h) as small integers: number i is scale * code[i] + least.
#pragma once

#include "kernels/cpu/common/simd.h"
#include "kernels/grids.h"

namespace comera::kernels::COMERA_CPU {

inline float half_number(const std::uint8_t* bytes) {
  std::uint16_t bits = 0;
  __builtin_memcpy(&bits, bytes, sizeof bits);
  return _cvtsh_ss(bits);
}

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

// One bit per byte of the result: `value` where it is set, else 0.
inline __m256i where_set(const std::uint8_t* bytes, int value) {
  std::int32_t all = 0;
  __builtin_memcpy(&all, bytes, sizeof all);
  const __m256i each =
      _mm256_shuffle_epi8(_mm256_set1_epi32(all), _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1,  //
                                                                   2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3));
  const __m256i bit = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201u));
  return _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_and_si256(each, bit), bit), bytes_of(value));
}

template <Grid grid>
struct CodedBlock {
  static constexpr bool has_least = grid == Grid::q4_1;
  static constexpr int bytes = bytes_of_block(grid);

  float scale, least = 0;
  alignas(32) std::int8_t code[grid_block];

  explicit CodedBlock(const std::uint8_t* block) : scale(half_number(block)) {
    const std::uint8_t* rest = block + 2;
    __m256i codes;
    if constexpr (grid == Grid::q8_0) {
      codes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(rest));
    } else if constexpr (grid == Grid::q4_1) {
      least = half_number(rest);
      codes = nibbles(rest + 2);
    } else if constexpr (grid == Grid::q4_0) {
      codes = _mm256_sub_epi8(nibbles(rest), bytes_of(8));
    } else {
      // d (c - 3.5) = (d / 2) (2 c - 7)
      codes = quarters(rest);
      if constexpr (grid == Grid::q3_0) codes = _mm256_or_si256(codes, where_set(rest + 8, 4));
      codes = _mm256_sub_epi8(_mm256_add_epi8(codes, codes), bytes_of(grid == Grid::q3_0 ? 7 : 3));
      scale *= 0.5f;
    }
    _mm256_store_si256(reinterpret_cast<__m256i*>(code), codes);
  }

  F codes(int i) const { return to_float(load_signed_bytes(code + i)); }
  F numbers(int i) const { return fma(codes(i), set(scale), set(least)); }
};

// The codes of a block as eight lanes of four codes each. part<k>() is code k of every lane times unit(k), a power of
// two, which saves the shifts: whoever multiplies the codes divides the other factor by it. number_of(lane, k) tells
// which number of the block a code belongs to. q8_0's codes are signed, the others begin at 0.
template <Grid grid>
class CodeLanes {
 public:
  explicit CodeLanes(const std::uint8_t* block) {
    const std::uint8_t* rest = block + (grid == Grid::q4_1 ? 4 : 2);
    if constexpr (grid == Grid::q8_0) {
      words_ = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(rest));
    } else if constexpr (nibbles) {
      const __m128i pairs = _mm_loadu_si128(reinterpret_cast<const __m128i*>(rest));
      words_ = _mm256_srlv_epi32(_mm256_broadcastsi128_si256(pairs), _mm256_setr_epi32(0, 0, 0, 0, 16, 16, 16, 16));
    } else {
      words_ = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(rest)));
      if constexpr (grid == Grid::q3_0) high_ = high_bits(rest + 8);
    }
  }

  static constexpr float unit(int k) {
    return grid == Grid::q8_0 ? 0x1p24f : static_cast<float>(1 << (nibbles ? 4 * k : 2 * k));
  }

  static constexpr int number_of(int lane, int k) {
    if (!nibbles) return 4 * lane + k;
    return 4 * (lane % 4) + lane / 4 * 2 + k / 2 + k % 2 * 16;
  }

  template <int k>
  __m256 part() const {
    if constexpr (grid == Grid::q8_0) {
      const __m256i high = _mm256_slli_epi32(words_, 24 - 8 * k);  // the code in the sign's byte
      return _mm256_cvtepi32_ps(k == 0 ? high : _mm256_and_si256(high, _mm256_set1_epi32(~0xFFFFFF)));
    } else {
      const __m256i code = _mm256_and_si256(words_, _mm256_set1_epi32(nibbles ? 15 << 4 * k : 3 << 2 * k));
      if constexpr (grid != Grid::q3_0) return _mm256_cvtepi32_ps(code);
      return _mm256_cvtepi32_ps(_mm256_or_si256(code, _mm256_and_si256(high_, _mm256_set1_epi32(4 << 2 * k))));
    }
  }

 private:
  static constexpr bool nibbles = grid == Grid::q4_0 || grid == Grid::q4_1;

  // Bit 4 j + k of the word as bit 2 k + 2 of lane j.
  static __m256i high_bits(const std::uint8_t* bytes) {
    std::int32_t all = 0;
    __builtin_memcpy(&all, bytes, sizeof all);
    const __m256i bits = _mm256_srlv_epi32(_mm256_set1_epi32(all), _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28));
    const auto at = [&](int k) { return _mm256_slli_epi32(_mm256_and_si256(bits, _mm256_set1_epi32(1 << k)), k + 2); };
    const __m256i first_three = _mm256_setr_epi8(0, 4, 16, 20, 64, 68, 80, 84, 0, 0, 0, 0, 0, 0, 0, 0,  //
                                                 0, 4, 16, 20, 64, 68, 80, 84, 0, 0, 0, 0, 0, 0, 0, 0);
    return _mm256_or_si256(_mm256_shuffle_epi8(first_three, _mm256_and_si256(bits, _mm256_set1_epi32(7))), at(3));
  }

  __m256i words_, high_;
};

// Calls visit.operator()<grid>() for the grid of a call.
template <class Visit>
void with_grid(Grid grid, Visit visit) {
  switch (grid) {
    case Grid::q8_0: return visit.template operator()<Grid::q8_0>();
    case Grid::q4_1: return visit.template operator()<Grid::q4_1>();
    case Grid::q4_0: return visit.template operator()<Grid::q4_0>();
    case Grid::q3_0: return visit.template operator()<Grid::q3_0>();
    case Grid::q2_0: return visit.template operator()<Grid::q2_0>();
  }
}

}  // namespace comera::kernels::COMERA_CPU
