// Products of a few tokens with a matrix. The time is that of reading the matrix, so it is read once, in the order in
// which it is stored, by as many tiles as give every thread work. Tiles of dense products (tile_gemm.h) would copy it
// first.
#pragma once

#include "kernels/cpu/common/simd.h"
#include "kernels/cpu/common/workspace.h"
#include "kernels/host/thread_pool.h"

namespace comera::kernels::COMERA_CPU {

constexpr std::int64_t few_tokens = 8;  // more are faster in tiles
constexpr int tokens_at_once = 4;

// Calls visit.operator()<tokens>(first token) for groups of four tokens, then for single ones.
template <class Visit>
void for_few_tokens(std::int64_t tokens, Visit visit) {
  std::int64_t token = 0;
  for (; token + tokens_at_once <= tokens; token += tokens_at_once) visit.template operator()<tokens_at_once>(token);
  for (; token < tokens; ++token) visit.template operator()<1>(token);
}

constexpr std::int64_t lines_of_tile = 32;

// Calls visit(first line, last line) for parts of a matrix, in parallel. A thread prefetches the lines behind those
// that it reads, which are of use to itself alone, so the parts are long: one per thread, and a second that evens out
// their speeds. A line's result does not depend on its part.
template <class Visit>
void for_line_ranges(const Context& context, std::int64_t lines, Visit visit) {
  constexpr std::int64_t parts_of_thread = 2, cache_line = 16;  // floats of y
  const std::int64_t part = tiles_of(lines, parts_of_thread * threads_of(context)),
                     step = max<std::int64_t>(1, tiles_of(part, cache_line)) * cache_line;
  parallel_for(context, tiles_of(lines, step), [&](std::int64_t i) { visit(i * step, min((i + 1) * step, lines)); });
}

// y [tokens, lines] = or += x [tokens, numbers] times the transpose of a matrix [lines, numbers].
struct LineProducts {
  std::int64_t tokens, lines, numbers;
  const float* x;
  std::int64_t ldx;
  const float* matrix;
  std::int64_t ld;
  float* y;
  std::int64_t ldy;
  bool accumulate;
};

template <int tokens, int lines>
void multiply_lines(const LineProducts& p, std::int64_t token, std::int64_t line) {
  const float *x = p.x + token * p.ldx, *matrix = p.matrix + line * p.ld;
  F total[tokens][lines];
  for (int t = 0; t < tokens; ++t)
    for (int l = 0; l < lines; ++l) total[t][l] = zero();
  const auto add = [&](std::int64_t at, auto... lanes) {
    F number[lines];
    for (int l = 0; l < lines; ++l) {
      number[l] = load(matrix + l * p.ld + at, lanes...);
      _mm_prefetch(matrix + (l + lines) * p.ld + at, _MM_HINT_T0);
    }
    for (int t = 0; t < tokens; ++t)
      for (int l = 0; l < lines; ++l) total[t][l] = fma(load(x + t * p.ldx + at, lanes...), number[l], total[t][l]);
  };
  std::int64_t at = 0;
  for (; at + F::width <= p.numbers; at += F::width) add(at);
  if (at < p.numbers) add(at, p.numbers - at);
  for (int t = 0; t < tokens; ++t)
    for (int l = 0; l < lines; ++l) {
      float& y = p.y[(token + t) * p.ldy + line + l];
      y = (p.accumulate ? y : 0) + sum(total[t][l]);
    }
}

inline void multiply_lines(const Context& context, const LineProducts& p) {
  for_line_ranges(context, p.lines, [&](std::int64_t first, std::int64_t last) {
    for_few_tokens(p.tokens, [&]<int tokens>(std::int64_t token) {
      constexpr int lines = tokens == 1 ? 4 : 2;  // as many sums as registers hold
      std::int64_t line = first;
      for (; line + lines <= last; line += lines) multiply_lines<tokens, lines>(p, token, line);
      for (; line < last; ++line) multiply_lines<tokens, 1>(p, token, line);
    });
  });
}

// x [tokens, rows] times a matrix [rows, columns], by groups of rows and strips of columns. Each group has its own sum.
struct RowProducts {
  std::int64_t tokens, rows, columns;
  const float* x;
  std::int64_t ldx;
  const float* matrix;  // contiguous

  static constexpr std::int64_t strip = 1024;  // columns: 4 KiB of a row
  static constexpr std::int64_t rows_at_once = 8;

  std::int64_t strips() const { return tiles_of(columns, strip); }
  std::int64_t groups() const {
    constexpr std::int64_t enough_tiles = 16;
    return max<std::int64_t>(1, min(tiles_of(enough_tiles, strips()), tiles_of(rows, rows_at_once)));
  }
  std::int64_t floats() const { return groups() * tokens * columns; }
};

// sums[t, j] = or += x[token + t, row + i] matrix[row + i, j] over `rows` rows, for the columns [first, last).
template <int tokens, int rows>
void add_rows(const RowProducts& p, std::int64_t token, std::int64_t row, bool start, Range columns, float* sums) {
  const float* x = p.x + token * p.ldx + row;
  const float* matrix = p.matrix + row * p.columns;
  for (std::int64_t j = columns.first; j < columns.last; j += F::width) {
    const std::int64_t lanes = min<std::int64_t>(F::width, columns.last - j);
    F total[tokens];
    for (int t = 0; t < tokens; ++t) total[t] = start ? zero() : load(sums + t * p.columns + j, lanes);
    for (int i = 0; i < rows; ++i) {
      const F number = load(matrix + i * p.columns + j, lanes);
      _mm_prefetch(matrix + (i + rows) * p.columns + j, _MM_HINT_T0);
      for (int t = 0; t < tokens; ++t) total[t] = fma(set(x[t * p.ldx + i]), number, total[t]);
    }
    for (int t = 0; t < tokens; ++t) store(sums + t * p.columns + j, total[t], lanes);
  }
}

// sums [groups, tokens, columns]
inline void multiply_rows(const Context& context, const RowProducts& p, float* sums) {
  const std::int64_t groups = p.groups();
  parallel_for(context, groups * p.strips(), [&](std::int64_t tile) {
    const std::int64_t group = tile / p.strips(), first = tile % p.strips() * p.strip;
    const Range rows = part_of(p.rows, p.rows_at_once, groups, group), columns{first, min(first + p.strip, p.columns)};
    for_few_tokens(p.tokens, [&]<int tokens>(std::int64_t token) {
      float* part = sums + (group * p.tokens + token) * p.columns;
      if (p.rows == 0) add_rows<tokens, 0>(p, token, 0, true, columns, part);
      std::int64_t row = rows.first;
      for (; row + p.rows_at_once <= rows.last; row += p.rows_at_once)
        add_rows<tokens, RowProducts::rows_at_once>(p, token, row, row == rows.first, columns, part);
      for (; row < rows.last; ++row) add_rows<tokens, 1>(p, token, row, row == rows.first, columns, part);
    });
  });
}

// Adds the sums of all groups to those of the first, for the columns of a strip.
inline void join_groups(const RowProducts& p, Range columns, float* sums) {
  for (std::int64_t group = 1; group < p.groups(); ++group)
    for (std::int64_t t = 0; t < p.tokens; ++t)
      for (std::int64_t j = columns.first; j < columns.last; j += F::width) {
        const std::int64_t lanes = min<std::int64_t>(F::width, columns.last - j);
        float* total = sums + t * p.columns + j;
        store(total, load(total, lanes) + load(total + group * p.tokens * p.columns, lanes), lanes);
      }
}

}  // namespace comera::kernels::COMERA_CPU
