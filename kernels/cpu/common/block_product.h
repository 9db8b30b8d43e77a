// Sums of small matrix products, c = start + sum over items of a_item b_item, held in registers from the first item to
// the last. For tables of small blocks, a general product would spend most of its time on packing and on writing c
// back.
#pragma once

#include "kernels/cpu/common/element.h"

namespace comera::kernels::COMERA_CPU {

// c [m, n], a_item [m, k] with element (i, l) at i * a_row + l * a_step, b_item [k, n] at ldb.
struct BlockShape {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t a_row = 0, a_step = 1, ldb = 0;
};

// Result of a product: a matrix that is overwritten or accumulated.
struct BlockResult {
  float* c;
  std::int64_t ldc;
  bool accumulate;
  template <class Lanes>
  F start(std::int64_t i, std::int64_t j, Lanes lanes) const {
    return accumulate ? load(c + i * ldc + j, lanes) : zero();
  }
  template <class Lanes>
  void finish(std::int64_t i, std::int64_t j, F value, Lanes lanes) const {
    store(c + i * ldc + j, value, lanes);
  }
};

// A product of one item.
template <class T>
struct OneBlock {
  const T *a_block, *b_block;
  std::int64_t count() const { return 1; }
  const T* a(std::int64_t) const { return a_block; }
  const T* b(std::int64_t) const { return b_block; }
};

// Items at equal distances.
struct EvenBlocks {
  const float* a_first;
  std::int64_t a_distance;
  const float* b_first;
  std::int64_t b_distance, items;
  std::int64_t count() const { return items; }
  const float* a(std::int64_t i) const { return a_first + i * a_distance; }
  const float* b(std::int64_t i) const { return b_first + i * b_distance; }
};

// Computes the rows x vectors of c from (i, j) on. `last` is the lanes of the last vector.
template <int rows, int vectors, class Lanes, class Items, class Result>
inline void product_tile(const BlockShape& s, std::int64_t i, std::int64_t j, Lanes last, const Items& items,
                         const Result& result) {
  constexpr std::int64_t w = F::width;
  F sum[rows][vectors];
  for (int r = 0; r < rows; ++r) {
    for (int v = 0; v + 1 < vectors; ++v) sum[r][v] = result.start(i + r, j + v * w, All{});
    sum[r][vectors - 1] = result.start(i + r, j + (vectors - 1) * w, last);
  }
  for (std::int64_t item = 0; item < items.count(); ++item) {
    const auto* a = items.a(item) + i * s.a_row;
    const auto* b = items.b(item) + j;
    for (std::int64_t l = 0; l < s.k; ++l, a += s.a_step, b += s.ldb) {
      F right[vectors];
      for (int v = 0; v + 1 < vectors; ++v) right[v] = load(b + v * w);
      right[vectors - 1] = load(b + (vectors - 1) * w, last);
      for (int r = 0; r < rows; ++r) {
        const F left = set(number(a[r * s.a_row]));
        for (int v = 0; v < vectors; ++v) sum[r][v] = fma(left, right[v], sum[r][v]);
      }
    }
  }
  for (int r = 0; r < rows; ++r) {
    for (int v = 0; v + 1 < vectors; ++v) result.finish(i + r, j + v * w, sum[r][v], All{});
    result.finish(i + r, j + (vectors - 1) * w, sum[r][vectors - 1], last);
  }
}

template <int vectors, class Lanes, class Items, class Result>
inline void product_columns(const BlockShape& s, std::int64_t j, Lanes last, const Items& items, const Result& result) {
  std::int64_t i = 0;
  for (; i + 4 <= s.m; i += 4) product_tile<4, vectors>(s, i, j, last, items, result);
  for (; i < s.m; ++i) product_tile<1, vectors>(s, i, j, last, items, result);
}

template <class Items, class Result>
void block_product(const BlockShape& s, const Items& items, const Result& result) {
  constexpr std::int64_t w = F::width;
  std::int64_t j = 0;
  for (; j + 3 * w <= s.n; j += 3 * w) product_columns<3>(s, j, All{}, items, result);
  for (; j + 2 * w <= s.n; j += 2 * w) product_columns<2>(s, j, All{}, items, result);
  for (; j + w <= s.n; j += w) product_columns<1>(s, j, All{}, items, result);
  if (j < s.n) product_columns<1>(s, j, Some{s.n - j}, items, result);
}

}  // namespace comera::kernels::COMERA_CPU
