// Products of words (bf16/pairs.h) by AMX. A tile register holds 16 rows of 16 words; TDPBF16PS adds the product of a
// tile of the left factor (16 rows, 32 numbers of the inner dimension) and one of the right factor (16 rows of words,
// 16 columns) to 16 x 16 floats. Rows of the left factor and packed words of the right one are loaded where they lie.
// A transposed left factor, and what is left at the edges, is first copied to the stack, filled with zeros.
#pragma once

#include <immintrin.h>

#include "kernels/cpu/bf16/pairs.h"

namespace comera::kernels::COMERA_CPU {

constexpr std::int64_t side = 16;          // rows of a tile, and words or floats of a row
constexpr std::int64_t block_steps = 16;   // tiles along the inner dimension at a time
constexpr std::int64_t block_across = 16;  // tiles along the columns of the result at a time
constexpr std::int64_t worth_tiles = 4;    // with fewer rows of the left factor AVX512-BF16 is used
// With so many columns, rows of the left factor are copied before they are used: every two tiles of columns load them
// again, and rows far apart in memory evict each other from the L1 cache.
constexpr std::int64_t worth_copy = 128;

struct WordTile {
  alignas(64) Word words[side * side];
};

// Gives all tile registers of the calling thread 16 rows of 64 bytes.
inline void configure_tiles() {
  static thread_local bool configured = false;
  if (configured) return;
  alignas(64) unsigned char shape[64] = {1};  // palette 1; bytes per row from 16 on, rows from 48 on
  for (int i = 0; i < 8; ++i) shape[16 + 2 * i] = 64, shape[48 + i] = side;
  asm volatile("ldtilecfg %0" ::"m"(shape));
  configured = true;
}

// Tiles of one row of the left factor's tiles, or of one column of the right factor's, in the order of the inner
// dimension. All but a short last one lie at equal distances.
struct TileLine {
  const char* first;
  std::int64_t stride, step;  // bytes between rows of a tile, and between tiles
  const WordTile* last;       // the short one
};

// Tiles of a block, copied. Only what is used is written.
struct TileStage {
  WordTile left[2][block_steps], right[block_steps], right_last[block_across];
  alignas(64) float sums[2][2][side * side];
};

inline void copy_words(const char* from, std::int64_t row, std::int64_t rows, std::int64_t columns, WordTile& to) {
  for (std::int64_t r = 0; r < side; ++r) {
    const F words = r < rows ? load(reinterpret_cast<const float*>(from + r * row), columns) : zero();
    store(reinterpret_cast<float*>(to.words + r * side), words);  // moved, never computed with
  }
}
inline void copy_transposed(const char* from, std::int64_t row, std::int64_t rows, std::int64_t columns, WordTile& to) {
  F words[side];
  for (std::int64_t r = 0; r < side; ++r)
    words[r] = r < rows ? load(reinterpret_cast<const float*>(from + r * row), columns) : zero();
  transpose_vectors(words);
  for (std::int64_t r = 0; r < side; ++r) store(reinterpret_cast<float*>(to.words + r * side), words[r]);
}

// Rows [0, rows) of the left factor, `pairs` words of each.
inline TileLine left_tiles(const LeftWords& a, std::int64_t rows, std::int64_t pairs, bool copy, WordTile* stage) {
  const std::int64_t full = pairs / side, rest = pairs % side;
  const bool by_rows = a.step == sizeof(Word), direct = by_rows && rows == side && !copy;
  for (std::int64_t p = direct ? full : 0; p < tiles_of(pairs, side); ++p) {
    const char* from = a.at(0, p * side).data;
    const std::int64_t count = min(side, pairs - p * side);
    by_rows ? copy_words(from, a.row, rows, count, stage[p]) : copy_transposed(from, a.step, count, rows, stage[p]);
  }
  const WordTile* last = rest > 0 ? stage + full : nullptr;
  if (direct) return {a.data, a.row, side * std::int64_t{sizeof(Word)}, last};
  return {reinterpret_cast<const char*>(stage), side * sizeof(Word), sizeof(WordTile), last};
}

// Columns [0, columns) of the packed right factor.
inline TileLine right_tiles(const Word* b, std::int64_t ldb, std::int64_t columns, std::int64_t pairs, WordTile* stage,
                            WordTile& stage_last) {
  const std::int64_t full = pairs / side, rest = pairs % side, row = ldb * std::int64_t{sizeof(Word)};
  const auto at = [&](std::int64_t p) { return reinterpret_cast<const char*>(b + p * side * ldb); };
  if (rest > 0) copy_words(at(full), row, rest, columns, stage_last);
  const WordTile* last = rest > 0 ? &stage_last : nullptr;
  if (columns == side) return {at(0), row, row * side, last};
  for (std::int64_t p = 0; p < full; ++p) copy_words(at(p), row, side, columns, stage[p]);
  return {reinterpret_cast<const char*>(stage), side * sizeof(Word), sizeof(WordTile), last};
}

// Adds one step of the inner dimension to the sums in registers 0 to 3.
template <int rows, int columns>
inline void add_step(const char* const* a, const std::int64_t* a_stride, const char* const* b,
                     const std::int64_t* b_stride) {
  _tile_loadd(4, a[0], a_stride[0]);
  _tile_loadd(6, b[0], b_stride[0]);
  _tile_dpbf16ps(0, 4, 6);
  if constexpr (columns > 1) {
    _tile_loadd(7, b[1], b_stride[1]);
    _tile_dpbf16ps(1, 4, 7);
  }
  if constexpr (rows > 1) {
    _tile_loadd(5, a[1], a_stride[1]);
    _tile_dpbf16ps(2, 5, 6);
    if constexpr (columns > 1) _tile_dpbf16ps(3, 5, 7);
  }
}

// A result of rows x columns tiles.
struct TileResult {
  float* at[2][2];
  std::int64_t stride[2][2];  // bytes
};

template <int rows, int columns>
inline void multiply_lines(const TileLine* a, const TileLine* b, std::int64_t steps, bool accumulate,
                           const TileResult& c) {
  if (accumulate) {
    _tile_loadd(0, c.at[0][0], c.stride[0][0]);
    if constexpr (columns > 1) _tile_loadd(1, c.at[0][1], c.stride[0][1]);
    if constexpr (rows > 1) _tile_loadd(2, c.at[1][0], c.stride[1][0]);
    if constexpr (rows > 1 && columns > 1) _tile_loadd(3, c.at[1][1], c.stride[1][1]);
  } else {
    _tile_zero(0);
    if constexpr (columns > 1) _tile_zero(1);
    if constexpr (rows > 1) _tile_zero(2);
    if constexpr (rows > 1 && columns > 1) _tile_zero(3);
  }
  const char *left[rows], *right[columns];
  std::int64_t left_stride[rows], right_stride[columns];
  for (int r = 0; r < rows; ++r) left[r] = a[r].first, left_stride[r] = a[r].stride;
  for (int j = 0; j < columns; ++j) right[j] = b[j].first, right_stride[j] = b[j].stride;
  for (std::int64_t p = 0; p < steps; ++p) {
    add_step<rows, columns>(left, left_stride, right, right_stride);
    for (int r = 0; r < rows; ++r) left[r] += a[r].step;
    for (int j = 0; j < columns; ++j) right[j] += b[j].step;
  }
  if (a[0].last) {
    for (int r = 0; r < rows; ++r)
      left[r] = reinterpret_cast<const char*>(a[r].last), left_stride[r] = side * sizeof(Word);
    for (int j = 0; j < columns; ++j)
      right[j] = reinterpret_cast<const char*>(b[j].last), right_stride[j] = side * sizeof(Word);
    add_step<rows, columns>(left, left_stride, right, right_stride);
  }
  _tile_stored(0, c.at[0][0], c.stride[0][0]);
  if constexpr (columns > 1) _tile_stored(1, c.at[0][1], c.stride[0][1]);
  if constexpr (rows > 1) _tile_stored(2, c.at[1][0], c.stride[1][0]);
  if constexpr (rows > 1 && columns > 1) _tile_stored(3, c.at[1][1], c.stride[1][1]);
}

// Computes [rows, columns] of c, at most 2 x 2 tiles; tiles at an edge go through the stage.
inline void multiply_square(std::int64_t rows, std::int64_t columns, std::int64_t steps, const TileLine* a,
                            const TileLine* b, bool accumulate, float* c, std::int64_t ldc, TileStage& stage) {
  TileResult result;
  const auto edges = [&](auto visit) {
    for (int r = 0; r < 2 && r * side < rows; ++r)
      for (int j = 0; j < 2 && j * side < columns; ++j)
        if (rows - r * side < side || columns - j * side < side)
          for (std::int64_t i = 0; i < min(side, rows - r * side); ++i)
            visit(stage.sums[r][j] + i * side, c + (r * side + i) * ldc + j * side, min(side, columns - j * side));
  };
  for (int r = 0; r < 2; ++r)
    for (int j = 0; j < 2; ++j) {
      const bool whole = rows >= (r + 1) * side && columns >= (j + 1) * side;
      result.at[r][j] = whole ? c + r * side * ldc + j * side : stage.sums[r][j];
      result.stride[r][j] = (whole ? ldc : side) * std::int64_t{sizeof(float)};
    }
  if (accumulate) edges([](float* sums, const float* of, std::int64_t lanes) { store(sums, load(of, lanes)); });
  asm volatile("" ::: "memory");  // the loads of tiles do not name what they read
  if (rows > side)
    columns > side ? multiply_lines<2, 2>(a, b, steps, accumulate, result)
                   : multiply_lines<2, 1>(a, b, steps, accumulate, result);
  else
    columns > side ? multiply_lines<1, 2>(a, b, steps, accumulate, result)
                   : multiply_lines<1, 1>(a, b, steps, accumulate, result);
  edges([](const float* sums, float* of, std::int64_t lanes) { store(of, load(sums), lanes); });
}

// At most block_steps x block_across tiles of b.
inline void multiply_tile_block(const PairShape& s, const LeftWords& a, const Word* b, float* c) {
  TileStage stage;
  TileLine right[block_across];
  for (std::int64_t j = 0; j < s.n; j += side)
    right[j / side] = right_tiles(b + j / side * s.panel, s.ldb, min(side, s.n - j), s.pairs, stage.right,
                                  stage.right_last[j / side]);
  for (std::int64_t i = 0; i < s.m; i += 2 * side) {
    const std::int64_t rows = min(2 * side, s.m - i);
    TileLine left[2];
    for (std::int64_t r = 0; r * side < rows; ++r)
      left[r] =
          left_tiles(a.at(i + r * side, 0), min(side, rows - r * side), s.pairs, s.n >= worth_copy, stage.left[r]);
    for (std::int64_t j = 0; j < s.n; j += 2 * side)
      multiply_square(rows, min(2 * side, s.n - j), s.pairs / side, left, right + j / side, s.accumulate,
                      c + i * s.ldc + j, s.ldc, stage);
  }
}

inline void multiply_in_tiles(const PairShape& s, const LeftWords& a, const Word* b, float* c) {
  configure_tiles();
  constexpr std::int64_t pairs = block_steps * side, columns = block_across * side;
  for (std::int64_t j = 0; j < s.n; j += columns)
    for (std::int64_t q = 0; q < max<std::int64_t>(s.pairs, 1); q += pairs) {
      PairShape part = s;
      part.n = min(columns, s.n - j), part.pairs = min(pairs, s.pairs - q), part.accumulate = s.accumulate || q > 0;
      multiply_tile_block(part, a.at(0, q), b + q * s.ldb + j / side * s.panel, c + j);
    }
}

}  // namespace comera::kernels::COMERA_CPU
