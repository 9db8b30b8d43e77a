// c = or += a b for words of bf16 numbers (pairs.h): by AMX where the build has it, otherwise by VDPBF16PS.
#pragma once

#include "kernels/cpu/bf16/register_product.h"
#if defined(__AMX_BF16__)
#include "kernels/cpu/amx/tile_product.h"
#endif

namespace comera::kernels::COMERA_CPU {

// A large product takes this much of the inner dimension, and so many columns, at a time: by AMX their words fit the L2
// cache, otherwise the L1 cache.
#if defined(__AMX_BF16__)
constexpr bool in_panels = true;
constexpr std::int64_t inner = 512;
constexpr std::int64_t strip = 256;
constexpr std::int64_t rows_ahead = 8;  // prefetched while a right factor is packed
constexpr std::int64_t largest_rows = 512;
#else
constexpr bool in_panels = false;
constexpr std::int64_t inner = 256;
constexpr std::int64_t strip = 64;
constexpr std::int64_t rows_ahead = 0;
constexpr std::int64_t largest_rows = 256;
#endif

// How the words of a right factor [k, n] lie in memory: row after row, or for AMX in panels of 16 columns, so that a
// tile is contiguous.
struct RightLayout {
  std::int64_t ld, panel;
  RightLayout(std::int64_t k, std::int64_t n)
      : ld(in_panels ? F::width : n), panel(in_panels ? pairs_of(k) * F::width : F::width) {}

  std::int64_t at(std::int64_t j) const { return j / F::width * panel; }  // j is a multiple of 16
  static std::int64_t words(std::int64_t k, std::int64_t n) {
    return pairs_of(k) * (in_panels ? tiles_of<std::int64_t>(n, F::width) * F::width : n);
  }
};

// Packs the words of a right factor [k, n], or of one given as its transpose [n, k].
inline void pack_right(std::int64_t k, std::int64_t n, const Bf16* b, std::int64_t ldb, bool transposed,
                       const RightLayout& layout, Word* to) {
  if (!transposed) return pack_pairs<rows_ahead>(k, n, b, ldb, to, layout.ld, layout.panel);
  const std::int64_t width = in_panels ? F::width : n;
  for (std::int64_t j = 0; j < n; j += width)
    pack_pairs_transposed(k, min(width, n - j), b + j * ldb, ldb, to + layout.at(j), layout.ld);
}

inline void multiply_pairs(const PairShape& s, const LeftWords& a, const Word* b, float* c) {
#if defined(__AMX_BF16__)
  if (s.m >= worth_tiles || s.panel != side) return multiply_in_tiles(s, a, b, c);
#endif
  multiply_in_registers(s, a, b, c);
}

}  // namespace comera::kernels::COMERA_CPU
