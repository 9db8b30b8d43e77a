// Tiles of a large product's result. They depend on its shape alone.
#pragma once

#include "kernels/cpu/common/transpose.h"
#include "kernels/host/thread_pool.h"

namespace comera::kernels::COMERA_CPU {

constexpr std::int64_t largest_tile = 256;
constexpr std::int64_t smallest_tile = 64;
constexpr std::int64_t enough_tiles = 16;

// c = a b; a is [m, k], or stored transposed [k, m]; b is [k, n], or stored transposed [n, k].
template <class T>
struct FactorsOf {
  std::int64_t m, n, k;
  const T* a;
  std::int64_t lda;
  bool transpose_a;
  const T* b;
  std::int64_t ldb;
  bool transpose_b;
};

struct Tile {
  std::int64_t row, rows, column, columns;
};

// Tiles of a result [m, n], as large as possible while there are enough of them.
struct Tiles {
  std::int64_t m, n, rows = largest_tile, columns = largest_tile;

  Tiles(std::int64_t m, std::int64_t n, std::int64_t most_rows = largest_tile) : m(m), n(n), rows(most_rows) {
    while (count() < enough_tiles && max(rows, columns) > smallest_tile)
      (min(rows, m) > min(columns, n) || columns == smallest_tile ? rows : columns) /= 2;
  }
  std::int64_t across() const { return tiles_of(n, columns); }
  std::int64_t count() const { return tiles_of(m, rows) * across(); }
  Tile operator[](std::int64_t i) const {
    const std::int64_t row = i / across() * rows, column = i % across() * columns;
    return {row, min(rows, m - row), column, min(columns, n - column)};
  }
};

// y = or += x for a tile.
template <class Y>
void add_tile(const Tile& t, const float* x, bool accumulate, Y* y, std::int64_t ldy) {
  y += t.row * ldy + t.column;
  if (!accumulate) return copy_block(t.rows, t.columns, x, largest_tile, y, ldy);
  for (std::int64_t i = 0; i < t.rows; ++i)
    for (std::int64_t j = 0; j < t.columns; j += F::width) {
      const std::int64_t lanes = min<std::int64_t>(F::width, t.columns - j);
      store(y + i * ldy + j, load(y + i * ldy + j, lanes) + load(x + i * largest_tile + j, lanes), lanes);
    }
}

}  // namespace comera::kernels::COMERA_CPU
