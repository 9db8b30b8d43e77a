// The gradients of the heads of attention: of all query heads that share one key head, by one thread.
#pragma once

#include "kernels/cpu/common/attention_products.h"
#include "kernels/cpu/common/group_lanes.h"

namespace comera::kernels::COMERA_CPU {

// Rows of one head of a sequence, from its first.
struct HeadRows {
  const Element* first;
  std::int64_t ld;

  const Element* row(std::int64_t t) const { return first + t * ld; }
};

// The numbers of one head, restored from codes.
struct RestoredHead {
  using Numbers = Element[coded_tokens * coded_head];
  alignas(64) Numbers q, k, v, out;
};

static_assert(coded_tokens <= key_block);  // all keys of a head are one block

// Handles all query heads that share one key head, so that one thread adds dK and dV in a fixed order.
struct BackwardTask {
  const AttentionBackward& a;
  const CodedAttentionBackward* coded;  // null: q, k, v and out are in memory
  const DropoutRule& rule;
  float* d_scores;  // [B, Hq, Tq + Tk - 1], optional: unscaled sums over the scores of each distance
  float* dq_sums;   // for more keys than a block has: [B, Tq, ...] at ld_sums, of one head after the other
  std::int64_t ld_sums;
  std::int64_t b, key_head;

  struct Packed {
    PackedFactor keys_transposed, values_transposed, keys;
    alignas(64) float d_keys[largest_head * key_block];
    alignas(64) float d_values[largest_head * key_block];
  };

  // Replaces a row of scores that holds all keys of the query by exponentials relative to the largest one. Returns the
  // inverse of their sum.
  static float exponentials(float* score, const KeyBlock& block, Range range, F scale) {
    const F low = set(-__builtin_inff());
    F largest = low, total = zero();
    for (std::int64_t j = 0; j < block.padded; j += F::width)
      largest = max(largest, in_range(load(score + j) * scale, j, range, low));
    const F now = set(max_lane(largest));
    for (std::int64_t j = 0; j < block.padded; j += F::width) {
      const F e = in_range(exp_at_most_one(fms(load(score + j), scale, now)), j, range, zero());
      store(score + j, e);
      total = total + e;
    }
    return 1 / sum(total);
  }

  // Converts a row of scores and a row of dO V^T into dropped probabilities and the gradient of the unscaled scores q
  // K^T.
  void score_gradient(float* score, float* gradient, const KeyBlock& block, std::int64_t h, std::int64_t t,
                      float row_delta, Element* probability, Element* rounded) const {
    const AttentionShape& s = a.shape;
    const Range range = within(keys_of(s, b, t), block);
    const bool whole = range.first == 0 && range.last == block.padded;
    if (range.first >= range.last) {
      for (std::int64_t j = 0; j < block.padded; ++j) gradient[j] = 0, probability[j] = rounded[j] = {};
      return;
    }
    const F delta = set(row_delta), scale = set(static_cast<float>(s.scale));
    const F lse = set(a.lse ? f32(a.lse)[(b * s.heads + h) * s.queries + t] : 0.0f);
    const F inverse = set(a.lse ? 0.0f : exponentials(score, block, range, scale));
    const RowDropout dropout(rule, a.dropout.samples, b, t, h, block);
    for (std::int64_t j = 0; j < block.padded; j += F::width) {
      F p = a.lse ? exp_at_most_one(fms(load(score + j), scale, lse)) : load(score + j) * inverse;
      if (!whole) p = in_range(p, j, range, zero());
      const F d = p * scale * (dropout.apply(load(gradient + j), j) - delta);
      store(probability + j, dropout.apply(p, j));
      store(rounded + j, d);
      if (!__is_same(Element, float) && d_scores) store(gradient + j, d);
    }
  }

  HeadRows in_memory(const void* x, std::int64_t ld, std::int64_t tokens, std::int64_t h) const {
    return {elements(x) + b * tokens * ld + h * a.shape.head_size, ld};
  }
  HeadRows restored(const CodedAttentionBackward::Columns& x, std::int64_t tokens, std::int64_t h,
                    Element* memory) const {
    const std::int64_t d = a.shape.head_size;
    for (std::int64_t t = 0; t < tokens; ++t)
      restore_columns(x.rows.shape, x.rows.codes, x.rows.ranges, b * tokens + t, x.first + h * d, d, memory + t * d);
    return {memory, d};
  }
  HeadRows keys(RestoredHead* memory) const {
    return coded ? restored(coded->k, a.shape.keys, key_head, memory->k)
                 : in_memory(a.k, a.ldk, a.shape.keys, key_head);
  }
  HeadRows values(RestoredHead* memory) const {
    return coded ? restored(coded->v, a.shape.keys, key_head, memory->v)
                 : in_memory(a.v, a.ldv, a.shape.keys, key_head);
  }
  HeadRows queries(std::int64_t h, RestoredHead* memory) const {
    return coded ? restored(coded->q, a.shape.queries, h, memory->q) : in_memory(a.q, a.ldq, a.shape.queries, h);
  }
  HeadRows outputs(std::int64_t h, RestoredHead* memory) const {
    return coded ? restored(coded->out, a.shape.queries, h, memory->out)
                 : in_memory(a.out, a.ld_out, a.shape.queries, h);
  }

  // The products of rows of dO and O. Apart from the rest, so that the processor waits for many rows at once.
  void find_deltas(const HeadRows& out, const HeadRows& d_out, std::int64_t t, std::int64_t count, float* delta) const {
    for (std::int64_t r = 0; r < count; ++r) {
      F products = zero();
      sweep(0, a.shape.head_size, [&](std::int64_t j, auto lanes) {
        products = fma(load(out.row(t + r) + j, lanes), load(d_out.row(t + r) + j, lanes), products);
      });
      delta[r] = sum(products);
    }
  }

  float* d_scores_of(std::int64_t h) const { return d_scores + (b * a.shape.heads + h) * a.shape.distances(); }

  // Adds the gradients of the scores of queries [t, t + count) along their diagonals.
  void add_diagonals(const float* gradient, const KeyBlock& block, std::int64_t h, std::int64_t t,
                     std::int64_t count) const {
    for (std::int64_t r = 0; r < count; ++r) {
      float* sum = d_scores_of(h) + distance_at(a.shape, t + r, block);
      const float* row = gradient + r * key_block;
      sweep(0, block.keys,
            [=](std::int64_t j, auto lanes) { store(sum + j, load(sum + j, lanes) + load(row + j, lanes), lanes); });
    }
  }

  // Adds the gradients of `count` queries for one block of keys. The first block of keys overwrites dQ.
  void add_queries(const KeyBlock& block, const HeadRows& queries, const HeadRows& out, std::int64_t h, std::int64_t t,
                   std::int64_t count, const Ahead& ahead, Packed& packed) const {
    alignas(64) float score[query_block * largest_head];  // reused for dQ
    alignas(64) float gradient[query_block * key_block];
    const AttentionShape& s = a.shape;
    const std::int64_t d = s.head_size, row = b * s.queries + t;
    const HeadRows d_out_rows = in_memory(a.d_out, a.ld_out, s.queries, h);
    const Element *q = queries.row(t), *d_out = d_out_rows.row(t);
    FactorOfScores probability(score), rounded(gradient);
    float delta[query_block];
    find_deltas(out, d_out_rows, t, count, delta);
    multiply_keys(count, block, d, q, queries.ld, packed.keys_transposed, score);
    multiply_keys(count, block, d, d_out, a.ld_out, packed.values_transposed, gradient);
    for (std::int64_t r = 0; r < count; ++r) ahead.call(t + r);
    BiasStrip bias;
    if (s.biased()) bias.fill(s, h, t, count, block);
    for (std::int64_t r = 0; r < count; ++r) {
      if (s.biased()) bias.add_to(score + r * key_block, r, block);
      score_gradient(score + r * key_block, gradient + r * key_block, block, h, t + r, delta[r],
                     probability.data + r * key_block, rounded.data + r * key_block);
    }
    if (d_scores) add_diagonals(gradient, block, h, t, count);
    add_outer(count, block, d, probability.data, d_out, a.ld_out, packed.d_values);
    add_outer(count, block, d, rounded.data, q, queries.ld, packed.d_keys);
    if (s.keys <= key_block) {
      multiply_rows(count, block, d, rounded.data, packed.keys, false, score, d);
      write_block(streams_queries(s), count, d, score, d, elements(a.dq) + row * a.ldq + h * d, a.ldq);
    } else {
      multiply_rows(count, block, d, rounded.data, packed.keys, block.first > 0, dq_sums + row * ld_sums + h * d,
                    ld_sums);
    }
  }

  // Rows to prefetch: the next block of keys, or the first rows of the next key head after the last block. Prefetching
  // does not pay off for grouped heads, nor for codes.
  Ahead ahead_of(const KeyBlock& block, bool last_head) const {
    const AttentionShape& s = a.shape;
    Ahead ahead{.columns = s.head_size};
    const bool last_block = block.first + key_block >= s.keys;
    if ((last_block && last_head) || s.heads != s.key_heads) return ahead;
    const std::int64_t head = last_block ? key_head + 1 : key_head, key = last_block ? 0 : block.first + key_block;
    const std::int64_t column = head * s.head_size, count = min(key_block, s.keys - key);
    if (!coded) {
      ahead.add(elements(a.k) + (b * s.keys + key) * a.ldk + column, a.ldk, count);
      ahead.add(elements(a.v) + (b * s.keys + key) * a.ldv + column, a.ldv, count);
    }
    if (!last_block) return ahead;
    if (!coded) {
      ahead.add(elements(a.q) + b * s.queries * a.ldq + column, a.ldq, min(key_block, s.queries));
      ahead.add(elements(a.out) + b * s.queries * a.ld_out + column, a.ld_out, min(key_block, s.queries));
    }
    ahead.add(elements(a.d_out) + b * s.queries * a.ld_out + column, a.ld_out, min(key_block, s.queries));
    return ahead;
  }

  void add_block(const KeyBlock& block, const Ahead& ahead, RestoredHead* memory, Packed& packed) const {
    const AttentionShape& s = a.shape;
    const std::int64_t d = s.head_size, group = s.heads / s.key_heads, row = b * s.keys + block.first;
    const HeadRows k = keys(memory), v = values(memory);
    pack_transposed(block, d, k.row(block.first), k.ld, packed.keys_transposed);
    pack_transposed(block, d, v.row(block.first), v.ld, packed.values_transposed);
    pack_rows(block, d, k.row(block.first), k.ld, packed.keys);
    for (std::int64_t i = 0; i < block.padded * d; ++i) packed.d_keys[i] = packed.d_values[i] = 0;
    for (std::int64_t h = key_head * group; h < (key_head + 1) * group; ++h) {
      const HeadRows q = queries(h, memory), out = outputs(h, memory);
      for (std::int64_t t = 0; t < s.queries; t += query_block) {
        const std::int64_t count = min(query_block, s.queries - t);
        if (block.first == 0 || touches(keys_of_rows(s, b, t, count), block))
          add_queries(block, q, out, h, t, count, ahead, packed);
      }
    }
    write_block(streams_queries(s), block.keys, d, packed.d_keys, d, elements(a.dk) + row * a.ldk + key_head * d,
                a.ldk);
    write_block(streams_queries(s), block.keys, d, packed.d_values, d, elements(a.dv) + row * a.ldv + key_head * d,
                a.ldv);
  }

  void run(bool last_head, RestoredHead* memory) const {
    Packed packed;
    const std::int64_t group = a.shape.heads / a.shape.key_heads;
    if (d_scores)
      std::memset(d_scores_of(key_head * group), 0,
                  static_cast<std::size_t>(group * a.shape.distances()) * sizeof(float));
    for (std::int64_t at = 0; at < a.shape.keys; at += key_block) {
      const KeyBlock block(a.shape, at);
      add_block(block, ahead_of(block, last_head), memory, packed);
    }
  }
};

}  // namespace comera::kernels::COMERA_CPU
