// Large products. The result is split into tiles that depend on its shape alone, and the tiles are spread over the
// threads. A tile loops over the inner dimension in blocks. The operands of a block are copied into contiguous memory
// that fits the L2 cache (Goto and van de Geijn 2008) and multiplied by small kernels.
#pragma once

#include "kernels/cpu/common/gemm.h"
#include "kernels/cpu/common/transpose.h"
#include "kernels/host/thread_pool.h"

namespace comera::kernels::COMERA_CPU {

constexpr std::int64_t largest_tile = 256;
constexpr std::int64_t smallest_tile = 64;
constexpr std::int64_t enough_tiles = 16;
constexpr std::int64_t inner_block = 128;
constexpr std::int64_t kernel_block = 64;  // rows and columns of a kernel's result

// c = a b; a is [m, k], or stored transposed [k, m]; b is [k, n], or stored transposed [n, k].
struct Factors {
  std::int64_t m, n, k;
  const float* a;
  std::int64_t lda;
  bool transpose_a;
  const float* b;
  std::int64_t ldb;
  bool transpose_b;
};

struct Tile {
  std::int64_t row, rows, column, columns;
};

// Tiles of a result [m, n], as large as possible while there are enough of them.
struct Tiles {
  std::int64_t m, n, rows = largest_tile, columns = largest_tile;

  Tiles(std::int64_t m, std::int64_t n) : m(m), n(n) {
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

struct TileMemory {
  alignas(64) float a[largest_tile * inner_block];   // [rows, inner] or, transposed, [inner, rows]
  alignas(64) float b[largest_tile * inner_block];   // panels of kernel_block columns, each [inner, columns]
  alignas(64) float c[largest_tile * largest_tile];  // [rows, columns] at largest_tile
};

inline void pack_left(const Factors& f, const Tile& t, std::int64_t first, std::int64_t inner, float* packed) {
  if (f.transpose_a) return copy_block(inner, t.rows, f.a + first * f.lda + t.row, f.lda, packed, t.rows);
  copy_block(t.rows, inner, f.a + t.row * f.lda + first, f.lda, packed, inner);
}

// Part of the right factor: [inner, columns].
struct Panel {
  std::int64_t first, inner, column, columns;
};

// Copies panels of a dense right factor.
struct DensePanels {
  const Factors& f;
  void operator()(const Panel& p, float* packed) const {
    if (f.transpose_b) return transpose(p.columns, p.inner, f.b + p.column * f.ldb + p.first, f.ldb, packed, p.columns);
    copy_block(p.inner, p.columns, f.b + p.first * f.ldb + p.column, f.ldb, packed, p.columns);
  }
};

// Computes the tile of a b into memory.c. pack_right(panel, packed) writes panels of b.
template <class PackRight>
void multiply_tile(const Factors& f, const Tile& t, TileMemory& memory, const PackRight& pack_right) {
  for (std::int64_t first = 0; first < max<std::int64_t>(f.k, 1); first += inner_block) {
    const std::int64_t inner = min(inner_block, f.k - first), lda = f.transpose_a ? t.rows : inner;
    pack_left(f, t, first, inner, memory.a);
    for (std::int64_t j = 0; j < t.columns; j += kernel_block)
      pack_right(Panel{first, inner, t.column + j, min(kernel_block, t.columns - j)}, memory.b + j * inner);
    for (std::int64_t j = 0; j < t.columns; j += kernel_block)
      for (std::int64_t i = 0; i < t.rows; i += kernel_block) {
        const std::int64_t rows = min(kernel_block, t.rows - i), columns = min(kernel_block, t.columns - j);
        SmallGemm({rows, columns, inner, lda, columns, largest_tile, first > 0, f.transpose_a})(
            memory.a + (f.transpose_a ? i : i * inner), memory.b + j * inner, memory.c + i * largest_tile + j);
      }
  }
}

// Calls finish(tile, its values at largest_tile) for every tile of a b, in parallel.
template <class PackRight, class Finish>
void for_each_tile(const Context& context, const Factors& f, const PackRight& pack_right, Finish finish) {
  const Tiles tiles(f.m, f.n);
  parallel_for(context, tiles.count(), [&](std::int64_t i) {
    TileMemory memory;
    multiply_tile(f, tiles[i], memory, pack_right);
    finish(tiles[i], memory.c);
  });
}
template <class Finish>
void for_each_tile(const Context& context, const Factors& f, Finish finish) {
  for_each_tile(context, f, DensePanels{f}, finish);
}

// y = or += x for a tile.
inline void add_tile(const Tile& t, const float* x, bool accumulate, float* y, std::int64_t ldy) {
  y += t.row * ldy + t.column;
  if (!accumulate) return copy_block(t.rows, t.columns, x, largest_tile, y, ldy);
  for (std::int64_t i = 0; i < t.rows; ++i)
    for (std::int64_t j = 0; j < t.columns; j += F::width) {
      const std::int64_t lanes = min<std::int64_t>(F::width, t.columns - j);
      store(y + i * ldy + j, load(y + i * ldy + j, lanes) + load(x + i * largest_tile + j, lanes), lanes);
    }
}

}  // namespace comera::kernels::COMERA_CPU
