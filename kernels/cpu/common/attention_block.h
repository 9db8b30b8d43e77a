// Shared parts of attention's forward and backward: packed blocks of keys, key ranges, dropout of a row.
#pragma once

#include "kernels/attention.h"
#include "kernels/cpu/common/element.h"
#include "kernels/cpu/common/philox_simd.h"
#include "kernels/cpu/common/stream.h"
#include "kernels/cpu/common/transpose.h"
#include "kernels/cpu/common/workspace.h"

namespace comera::kernels::COMERA_CPU {

constexpr std::int64_t key_block = 128;     // a multiple of the number that keep_bits computes at once
constexpr std::int64_t query_block = 64;    // a block of scores fits the L1 cache
constexpr std::int64_t largest_head = 256;  // limited because blocks live on the stack

// Keys [first, first + keys) of one head of one sequence. `padded` is the number of columns in the products; columns
// beyond the keys are zero.
struct KeyBlock {
  std::int64_t first, keys, padded;

  KeyBlock(const AttentionShape& s, std::int64_t first)
      : first(first), keys(min(key_block, s.keys - first)), padded(tiles_of(keys, std::int64_t{16}) * 16) {}
};

// The number of the distance between query t and a block's first key.
inline std::int64_t distance_at(const AttentionShape& s, std::int64_t t, const KeyBlock& block) {
  return block.first - t + s.queries - 1;
}

// The biases of queries [t, t + rows) and a block's keys for one head, divided by the scale, so that they add to the
// products q k. They are equal along each diagonal.
struct BiasStrip {
  alignas(64) float numbers[key_block + 2 * query_block];
  std::int64_t rows = 0;

  void fill(const AttentionShape& s, std::int64_t head, std::int64_t t, std::int64_t count, const KeyBlock& block) {
    rows = count;
    const float* bias = static_cast<const float*>(s.bias) + head;
    const std::int32_t* row = s.bias_row + distance_at(s, t + rows - 1, block);
    const auto factor = static_cast<float>(1 / s.scale);
    for (std::int64_t i = 0; i < block.padded + rows; ++i)
      numbers[i] = i < block.keys + rows - 1 ? bias[row[i] * s.heads] * factor : 0;
  }
  // Adds those of query t + i to a row of products.
  void add_to(float* score, std::int64_t i, const KeyBlock& block) const {
    const float* bias = numbers + rows - 1 - i;
    for (std::int64_t j = 0; j < block.padded; j += F::width) store(score + j, load(score + j) + load(bias + j));
  }
};

inline bool streams_queries(const AttentionShape& s) {
  return s.batch * s.queries * s.heads * s.head_size >= streamed_from;
}

inline Range keys_of(const AttentionShape& s, std::int64_t b, std::int64_t t) {
  const std::int64_t at = b * s.queries + t;
  return {s.key_begin ? max<std::int64_t>(0, s.key_begin[at]) : 0,
          s.key_end ? min<std::int64_t>(s.keys, s.key_end[at]) : s.keys};
}

// The smallest range that contains the key ranges of `rows` queries.
inline Range keys_of_rows(const AttentionShape& s, std::int64_t b, std::int64_t t, std::int64_t rows) {
  Range all{s.keys, 0};
  for (std::int64_t i = 0; i < rows; ++i) {
    const Range range = keys_of(s, b, t + i);
    if (range.first >= range.last) continue;
    all = {min(all.first, range.first), max(all.last, range.last)};
  }
  return all;
}

// The part of a range inside a block, relative to the block's first key. Empty if first >= last.
inline Range within(Range range, const KeyBlock& block) {
  return {max<std::int64_t>(0, range.first - block.first), min(block.keys, range.last - block.first)};
}
inline bool touches(Range range, const KeyBlock& block) {
  const Range part = within(range, block);
  return part.first < part.last;
}

// Number of heads of one sequence per task. If there are enough tasks, a task handles several heads: the next head is
// adjacent in memory and can be prefetched during the current one.
inline std::int64_t heads_per_task(std::int64_t tasks) { return tasks >= 256 ? 6 : tasks >= 64 ? 2 : 1; }

// Rows that are read next. They are short and far apart, so the hardware prefetcher misses them. Each row of work
// prefetches one row of each block.
struct Ahead {
  struct Rows {
    const Element* x;
    std::int64_t ld, count;
  };
  Rows rows[5] = {};
  int used = 0;
  std::int64_t columns = 0;

  void add(const Element* x, std::int64_t ld, std::int64_t count) { rows[used++] = {x, ld, count}; }
  void call(std::int64_t row) const {
    for (int i = 0; i < used; ++i)
      for (std::int64_t j = 0; j < columns && row < rows[i].count; j += 64 / sizeof(Element))
        _mm_prefetch(reinterpret_cast<const char*>(rows[i].x + row * rows[i].ld + j), _MM_HINT_T1);
  }
};

inline F lane_numbers() {
  alignas(64) static const float numbers[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return load(numbers);
}
// Returns x in the columns of the range and `otherwise` outside. j is the column of lane 0.
inline F in_range(F x, std::int64_t j, Range range, F otherwise) {
  const F column = lane_numbers() + set(static_cast<float>(j));
  const F below_end = select(column < set(static_cast<float>(range.last)), x, otherwise);
  return select(column < set(static_cast<float>(range.first)), otherwise, below_end);
}

// e^x for a probability. Results are clamped at the smallest normal numbers, 1e-38, because arithmetic that underflows
// is a hundred times slower.
inline F exp_at_most_one(F x) { return exp(max(x, set(-87.0f))); }

// Dropout of the probabilities of one row in one block.
struct RowDropout {
  std::uint8_t bits[keep_bytes(key_block / 8)];
  bool active;
  F scale;

  RowDropout(const DropoutRule& rule, const std::int64_t* samples, std::int64_t b, std::int64_t t, std::int64_t head,
             const KeyBlock& block)
      : active(rule.threshold > 0), scale(set(static_cast<float>(rule.scale))) {
    if (active)
      keep_bits(rule, samples[b], t, attention_feature(head, block.first) / 8, tiles_of(block.padded, std::int64_t{8}),
                bits);
  }
  F apply(F x, std::int64_t j) const { return active ? keep(mask_of(bits + j / 8), x * scale) : x; }
};

}  // namespace comera::kernels::COMERA_CPU
