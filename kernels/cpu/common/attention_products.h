// The small products of attention: float factors by libxsmm, bf16 factors by words of two numbers (bf16/pairs.h).
// Sums are float.
#pragma once

#include "kernels/cpu/common/attention_block.h"
#if defined(COMERA_BF16_CALLS)
#include "kernels/cpu/bf16/pair_product.h"
#else
#include "kernels/cpu/common/gemm.h"
#endif

namespace comera::kernels::COMERA_CPU {

#if defined(COMERA_BF16_CALLS)

// A right factor of at most key_block x largest_head numbers.
struct PackedFactor {
  alignas(64) Word words[largest_head / 2 * key_block];
};

// The right factor [d, padded] whose columns are keys; those beyond the keys are zero.
inline void pack_transposed(const KeyBlock& block, std::int64_t d, const Bf16* x, std::int64_t ld, PackedFactor& to) {
  pack_pairs_transposed(d, block.keys, x, ld, to.words, key_block);
  for (std::int64_t q = 0; q < pairs_of(d); ++q)
    for (std::int64_t j = block.keys; j < block.padded; ++j) to.words[q * key_block + j] = 0;
}

// The right factor [padded, d] whose rows are keys; those beyond the keys are zero.
inline void pack_rows(const KeyBlock& block, std::int64_t d, const Bf16* x, std::int64_t ld, PackedFactor& to) {
  pack_pairs(block.keys, d, x, ld, to.words, d);
  for (std::int64_t i = pairs_of(block.keys) * d; i < block.padded / 2 * d; ++i) to.words[i] = 0;
}

// score [count, padded] at key_block = rows [count, d] times transposed keys.
inline void multiply_keys(std::int64_t count, const KeyBlock& block, std::int64_t d, const Bf16* rows, std::int64_t ld,
                          const PackedFactor& keys, float* score) {
  alignas(64) Bf16 copy[query_block * largest_head];
  multiply_pairs({count, block.padded, pairs_of(d), key_block, key_block}, rows_of(count, d, rows, ld, copy),
                 keys.words, score);
}

// sum [count, d] at d = or += p [count, padded] at key_block times the rows of keys.
inline void multiply_rows(std::int64_t count, const KeyBlock& block, std::int64_t d, const Bf16* p,
                          const PackedFactor& rows, bool accumulate, float* sum, std::int64_t ld_sum) {
  multiply_pairs({count, d, block.padded / 2, d, ld_sum, accumulate}, rows_of(p, key_block), rows.words, sum);
}

// sum [padded, d] += the transpose of p [count, padded] at key_block, times rows [count, d].
inline void add_outer(std::int64_t count, const KeyBlock& block, std::int64_t d, const Bf16* p, const Bf16* rows,
                      std::int64_t ld, float* sum) {
  alignas(64) Word left[query_block / 2 * key_block];
  alignas(64) Word right[query_block / 2 * largest_head];
  pack_pairs(count, block.padded, p, key_block, left, block.padded);
  pack_pairs(count, d, rows, ld, right, d);
  multiply_pairs({block.padded, d, pairs_of(count), d, d, true}, columns_of(left, block.padded), right, sum);
}

#else

struct PackedFactor {
  alignas(64) float numbers[largest_head * key_block];
};

inline void pack_transposed(const KeyBlock& block, std::int64_t d, const float* x, std::int64_t ld, PackedFactor& to) {
  transpose(block.keys, d, x, ld, to.numbers, key_block);
  for (std::int64_t i = 0; i < d; ++i)
    for (std::int64_t j = block.keys; j < block.padded; ++j) to.numbers[i * key_block + j] = 0;
}

inline void pack_rows(const KeyBlock& block, std::int64_t d, const float* x, std::int64_t ld, PackedFactor& to) {
  copy_block(block.keys, d, x, ld, to.numbers, d);
  for (std::int64_t i = block.keys * d; i < block.padded * d; ++i) to.numbers[i] = 0;
}

inline void multiply_keys(std::int64_t count, const KeyBlock& block, std::int64_t d, const float* rows, std::int64_t ld,
                          const PackedFactor& keys, float* score) {
  SmallGemm({count, block.padded, d, ld, key_block, key_block})(rows, keys.numbers, score);
}

inline void multiply_rows(std::int64_t count, const KeyBlock& block, std::int64_t d, const float* p,
                          const PackedFactor& rows, bool accumulate, float* sum, std::int64_t ld_sum) {
  SmallGemm({count, d, block.padded, key_block, d, ld_sum, accumulate})(p, rows.numbers, sum);
}

inline void add_outer(std::int64_t count, const KeyBlock& block, std::int64_t d, const float* p, const float* rows,
                      std::int64_t ld, float* sum) {
  SmallGemm({block.padded, d, count, key_block, ld, d, true, true})(p, rows, sum);
}

#endif

// score [keys] = one query [d] times the rows of keys, whose sums do not wait for each other.
template <int keys>
void multiply_rows_by_one(std::int64_t d, const Element* query, const Element* rows, std::int64_t ld, float* score) {
  F total[keys];
  for (F& one : total) one = zero();
  sweep(0, d, [&](std::int64_t c, auto lanes) {
    const F x = load(query + c, lanes);
    for (int j = 0; j < keys; ++j) total[j] = fma(x, load(rows + j * ld + c, lanes), total[j]);
  });
  for (int j = 0; j < keys; ++j) score[j] = sum(total[j]);
}

// score [padded] = one query [d] times the keys. A single query reads each key once, so no key is copied.
inline void multiply_keys_of_one(const KeyBlock& block, std::int64_t d, const Element* query, const Element* keys,
                                 std::int64_t ld, float* score) {
  constexpr int at_once = 8;
  std::int64_t j = 0;
  for (; j + at_once <= block.keys; j += at_once) multiply_rows_by_one<at_once>(d, query, keys + j * ld, ld, score + j);
  for (; j < block.keys; ++j) multiply_rows_by_one<1>(d, query, keys + j * ld, ld, score + j);
  for (; j < block.padded; ++j) score[j] = 0;
}

// sum = or += p [keys] times some columns of the rows of values.
template <int vectors, class Lanes>
void multiply_columns_of_one(const KeyBlock& block, const Element* p, const Element* values, std::int64_t ld,
                             bool accumulate, float* sum, Lanes lanes) {
  F total[vectors];
  for (int i = 0; i < vectors; ++i) total[i] = accumulate ? load(sum + i * F::width, lanes) : zero();
  for (std::int64_t j = 0; j < block.keys; ++j) {
    const F weight = set(number(p[j]));
    for (int i = 0; i < vectors; ++i) total[i] = fma(weight, load(values + j * ld + i * F::width, lanes), total[i]);
  }
  for (int i = 0; i < vectors; ++i) store(sum + i * F::width, total[i], lanes);
}

// sum [d] = or += p [keys] times the rows of values.
inline void multiply_rows_of_one(const KeyBlock& block, std::int64_t d, const Element* p, const Element* values,
                                 std::int64_t ld, bool accumulate, float* sum) {
  constexpr std::int64_t columns = 64;
  std::int64_t first = 0;
  for (; first + columns <= d; first += columns)
    multiply_columns_of_one<columns / F::width>(block, p, values + first, ld, accumulate, sum + first, All{});
  sweep(first, d, [&](std::int64_t c, auto lanes) {
    multiply_columns_of_one<1>(block, p, values + c, ld, accumulate, sum + c, lanes);
  });
}

// A block of scores, [query_block, key_block], as a factor of the next product.
struct FactorOfScores {
#if defined(COMERA_BF16_CALLS)
  alignas(64) Element data[query_block * key_block];
  explicit FactorOfScores(float*) {}
#else
  Element* data;
  explicit FactorOfScores(float* scores) : data(scores) {}
#endif
};

}  // namespace comera::kernels::COMERA_CPU
