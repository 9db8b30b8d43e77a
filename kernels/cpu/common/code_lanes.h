// The codes of a block of numbers on a grid (kernels/grids.h) as the lanes of a few vectors of float, for products that
// read each code once. `grid` is one in groups of 32: the codes of others are the same.
#pragma once

#include "kernels/cpu/common/simd.h"
#include "kernels/grids.h"

namespace comera::kernels::COMERA_CPU {

inline float half_number(const std::uint8_t* bytes) {
  std::uint16_t bits = 0;
  __builtin_memcpy(&bits, bytes, sizeof bits);
  return _cvtsh_ss(bits);
}

constexpr bool has_nibbles(Grid grid) { return grid == Grid::q4_0 || grid == Grid::q4_1; }

// The 12 bytes of a block of 3 bits. With `more`, the 4 bytes behind them are in memory too, which saves an
// instruction.
inline __m128i load_triples(const std::uint8_t* codes, bool more) {
  if (more) return _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes));
  std::int32_t last = 0;
  __builtin_memcpy(&last, codes + 8, sizeof last);
  return _mm_insert_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes)), last, 2);
}

// Codes 4 j to 4 j + 3 of 3 bits in the low bits of lane j. What the lane has above them has no meaning.
inline __m256i fours_of_triples(const std::uint8_t* codes, bool more) {
  const __m256i bytes = _mm256_broadcastsi128_si256(load_triples(codes, more));
  const __m256i pairs =
      _mm256_shuffle_epi8(bytes, _mm256_setr_epi8(0, 1, -1, -1, 1, 2, -1, -1, 3, 4, -1, -1, 4, 5, -1, -1,  //
                                                  6, 7, -1, -1, 7, 8, -1, -1, 9, 10, -1, -1, 10, 11, -1, -1));
  return _mm256_srlv_epi32(pairs, _mm256_setr_epi32(0, 4, 0, 4, 0, 4, 0, 4));
}

// part<k>() has code k of every lane times unit(k), a power of two, which saves shifts: whoever multiplies the codes
// divides the other factor by it. number_of(lane, k) tells which number of the block a code belongs to. The number is
// the scale times (code - zero). `more`: 4 bytes behind the codes are in memory.
#if defined(__AVX512F__)

// Four bits of a lane choose a number from a table of 16. Two codes of two bits are four bits together: they choose
// from two tables, one for each code. For codes of three bits the table has each number twice.
template <Grid grid>
class CodeLanes {
 public:
  static constexpr int parts = grid_block / F::width;
  static constexpr float zero = 0;  // the numbers of the tables are code - zero already

  explicit CodeLanes(const std::uint8_t* codes, [[maybe_unused]] bool more) : codes_(codes) {
    if constexpr (has_nibbles(grid)) {
      chosen_ = load_bytes(codes_).v;
    } else if constexpr (grid == Grid::q3_0) {  // four lanes have 3 bytes
      const __m512i bytes = _mm512_broadcast_i32x4(load_triples(codes, more));
      const __m512i each = _mm512_shuffle_epi8(
          bytes, _mm512_setr_epi32(0x020100, 0x020100, 0x020100, 0x020100, 0x050403, 0x050403, 0x050403, 0x050403,  //
                                   0x080706, 0x080706, 0x080706, 0x080706, 0x0B0A09, 0x0B0A09, 0x0B0A09, 0x0B0A09));
      chosen_ = _mm512_srlv_epi32(each, _mm512_setr_epi32(0, 6, 12, 18, 0, 6, 12, 18, 0, 6, 12, 18, 0, 6, 12, 18));
    } else if constexpr (grid == Grid::q2_0) {
      const auto words = [&](int i) {
        std::int32_t word = 0;
        __builtin_memcpy(&word, codes_ + 4 * i, sizeof word);
        return word;
      };
      const __m512i both = _mm512_inserti64x4(_mm512_set1_epi32(words(0)), _mm256_set1_epi32(words(1)), 1);
      chosen_ = _mm512_srlv_epi32(both, _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28));
    }
  }

  static constexpr float unit(int) { return 1; }
  static constexpr int number_of(int lane, int k) {
    return has_nibbles(grid) || grid == Grid::q8_0 ? F::width * k + lane : parts * lane + k;
  }

  template <int k>
  F part() const {
    if constexpr (grid == Grid::q8_0)
      return to_float(load_signed_bytes(reinterpret_cast<const std::int8_t*>(codes_) + F::width * k));
    else if constexpr (grid == Grid::q2_0)
      return {_mm512_permutexvar_ps(chosen_, table<k>())};
    else
      return {_mm512_permutexvar_ps(k == 0 ? chosen_ : _mm512_srli_epi32(chosen_, bits_of_code(grid)), table<k>())};
  }

 private:
  template <int k>
  static __m512 table() {
    const __m512i index = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i code = has_nibbles(grid)    ? index
                         : grid == Grid::q3_0 ? _mm512_and_si512(index, _mm512_set1_epi32(7))
                         : k == 0             ? _mm512_and_si512(index, _mm512_set1_epi32(3))
                                              : _mm512_srli_epi32(index, 2);
    return _mm512_sub_ps(_mm512_cvtepi32_ps(code), _mm512_set1_ps(grid_zero(grid)));
  }

  const std::uint8_t* codes_;
  __m512i chosen_;
};

#else

// A mask leaves a code at its place in the lane, which multiplies it by unit(k).
template <Grid grid>
class CodeLanes {
 public:
  static constexpr int parts = grid_block / F::width;
  static constexpr float zero = grid == Grid::q8_0 ? 0 : grid_zero(grid);

  explicit CodeLanes(const std::uint8_t* codes, [[maybe_unused]] bool more) {
    if constexpr (grid == Grid::q8_0) {
      words_ = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes));
    } else if constexpr (has_nibbles(grid)) {
      const __m128i pairs = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes));
      words_ = _mm256_srlv_epi32(_mm256_broadcastsi128_si256(pairs), _mm256_setr_epi32(0, 0, 0, 0, 16, 16, 16, 16));
    } else if constexpr (grid == Grid::q3_0) {
      words_ = fours_of_triples(codes, more);
    } else {
      words_ = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes)));
    }
  }

  static constexpr float unit(int k) { return grid == Grid::q8_0 ? 0x1p24f : static_cast<float>(1 << bits * k); }

  static constexpr int number_of(int lane, int k) {
    if (!has_nibbles(grid)) return 4 * lane + k;
    return 4 * (lane % 4) + lane / 4 * 2 + k / 2 + k % 2 * 16;
  }

  template <int k>
  F part() const {
    if constexpr (grid == Grid::q8_0) {
      const __m256i high = _mm256_slli_epi32(words_, 24 - 8 * k);  // the code in the sign's byte
      return {_mm256_cvtepi32_ps(k == 0 ? high : _mm256_and_si256(high, _mm256_set1_epi32(~0xFFFFFF)))};
    } else {
      return {_mm256_cvtepi32_ps(_mm256_and_si256(words_, _mm256_set1_epi32(((1 << bits) - 1) << bits * k)))};
    }
  }

 private:
  static constexpr int bits = bits_of_code(grid);

  __m256i words_;
};

#endif

}  // namespace comera::kernels::COMERA_CPU
