// Large products. The tiles of the result (tiles.h) are spread over the threads. A tile loops over the inner dimension
// in blocks. The operands of a block are copied into contiguous memory that fits the L2 cache (Goto and van de Geijn
// 2008) and multiplied by small kernels.
#pragma once

#include "kernels/cpu/common/gemm.h"
#include "kernels/cpu/common/tiles.h"

namespace comera::kernels::COMERA_CPU {

constexpr std::int64_t inner_block = 128;
constexpr std::int64_t kernel_block = 64;  // rows and columns of a kernel's result

using Factors = FactorsOf<float>;

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

}  // namespace comera::kernels::COMERA_CPU
