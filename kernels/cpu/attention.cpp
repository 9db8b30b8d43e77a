// CPU attention in blocks of 64 queries by 128 keys. Scores, probabilities and their gradients exist for one block at a
// time, on the stack. As factors of products, probabilities and gradients of scores have the type of activations.
#include "kernels/cpu/common/attention_products.h"
#include "kernels/cpu/ops.h"
#include "kernels/host/thread_pool.h"

namespace comera::kernels::COMERA_CPU {
namespace {

constexpr std::int64_t task_rows = 2 * query_block;  // queries that share one packed block of keys in the forward

// Running softmax of a task's rows over the keys processed so far: out = sum / total. `sum` and `total` are scaled by
// e^-maximum.
struct Running {
  alignas(64) float sum[task_rows * largest_head];
  float maximum[task_rows];
  float total[task_rows];
};

// Converts one row of scores into probabilities relative to the new maximum, with dropout applied for the product with
// V; they may take the place of the scores. Returns the factor that rescales the earlier sums.
float fold_row(float* score, const KeyBlock& block, Range range, F scale, const RowDropout& dropout, float* maximum,
               float* total, Element* probability) {
  const F low = set(-__builtin_inff());
  const bool whole = range.first == 0 && range.last == block.padded;
  F largest = low;
  for (std::int64_t j = 0; j < block.padded; j += F::width) {
    F x = load(score + j) * scale;
    if (!whole) x = in_range(x, j, range, low);
    store(score + j, x);
    largest = max(largest, x);
  }
  const float before = *maximum, now = max(before, max_lane(largest));
  F total_here = zero();
  for (std::int64_t j = 0; j < block.padded; j += F::width) {
    F p = exp_at_most_one(load(score + j) - set(now));
    if (!whole) p = in_range(p, j, range, zero());
    total_here = total_here + p;
    store(probability + j, dropout.apply(p, j));
  }
  const float factor = before == now ? 1.0f : __builtin_expf(before - now);
  *maximum = now;
  *total = *total * factor + sum(total_here);
  return factor;
}

void scale_row(float* x, std::int64_t count, float factor) {
  for (std::int64_t j = 0; j < count; j += F::width) {
    const std::int64_t lanes = min<std::int64_t>(F::width, count - j);
    store(x + j, load(x + j, lanes) * set(factor), lanes);
  }
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

struct ForwardTask {
  const AttentionForward& a;
  const DropoutRule& rule;
  std::int64_t b, h, t, rows;  // sequence, query head, first query, queries

  // A single query reads keys and values where they lie.
  bool alone() const { return rows == 1; }

  // Adds one block of keys for the queries [i, i + count) of the task.
  void add_keys(const KeyBlock& block, const BiasStrip& bias, std::int64_t i, std::int64_t count,
                const PackedFactor& keys, const PackedFactor& values, bool first, const Ahead& ahead,
                Running& running) const {
    alignas(64) float score[query_block * key_block];
    FactorOfScores probability(score);
    const AttentionShape& s = a.shape;
    const std::int64_t d = s.head_size, row = b * s.queries + t + i;
    const Element* queries = elements(a.q) + row * a.ldq + h * d;
    if (alone())
      multiply_keys_of_one(block, d, queries, key_rows(h, block.first), a.ldk, score);
    else
      multiply_keys(count, block, d, queries, a.ldq, keys, score);
    for (std::int64_t r = 0; r < count; ++r) {
      ahead.call(i + r);
      const Range range = within(keys_of(s, b, t + i + r), block);
      if (range.first >= range.last) {
        for (std::int64_t j = 0; j < block.padded; ++j) probability.data[r * key_block + j] = {};
        continue;
      }
      if (s.biased()) bias.add_to(score + r * key_block, i + r, block);
      const RowDropout dropout(rule, a.dropout.samples, b, t + i + r, h, block);
      const float factor = fold_row(score + r * key_block, block, range, set(static_cast<float>(s.scale)), dropout,
                                    running.maximum + i + r, running.total + i + r, probability.data + r * key_block);
      if (a.out && !first && factor != 1) scale_row(running.sum + (i + r) * d, d, factor);
    }
    if (a.out && alone())
      multiply_rows_of_one(block, d, probability.data, value_rows(h, block.first), a.ldv, !first, running.sum);
    else if (a.out)
      multiply_rows(count, block, d, probability.data, values, !first, running.sum + i * d, d);
  }

  void finish(Running& running) const {
    const std::int64_t d = a.shape.head_size;
    for (std::int64_t i = 0; i < rows; ++i) {
      const float total = running.total[i];
      if (total == 0) {
        std::memset(running.sum + i * d, 0, static_cast<std::size_t>(d) * sizeof(float));
      } else {
        if (a.out) scale_row(running.sum + i * d, d, 1 / total);
        if (a.lse)
          f32(a.lse)[(b * a.shape.heads + h) * a.shape.queries + t + i] = running.maximum[i] + __builtin_logf(total);
      }
    }
    if (!a.out) return;
    write_block(streams_queries(a.shape), rows, d, running.sum, d,
                elements(a.out) + (b * a.shape.queries + t) * a.ld_out + h * d, a.ld_out);
  }

  const Element* key_rows(std::int64_t head, std::int64_t key) const {
    const std::int64_t key_head = head / (a.shape.heads / a.shape.key_heads);
    return elements(a.k) + (b * a.shape.keys + key) * a.ldk + key_head * a.shape.head_size;
  }
  const Element* value_rows(std::int64_t head, std::int64_t key) const {
    const std::int64_t key_head = head / (a.shape.heads / a.shape.key_heads);
    return elements(a.v) + (b * a.shape.keys + key) * a.ldv + key_head * a.shape.head_size;
  }

  // Rows to prefetch: the next block of keys, or the first rows of the next head after the last block.
  Ahead ahead_of(std::int64_t at, const Range& all, bool last_head) const {
    const AttentionShape& s = a.shape;
    Ahead ahead{.columns = s.head_size};
    const bool last_block = at + key_block >= all.last;
    if (last_block && last_head) return ahead;
    const std::int64_t head = last_block ? h + 1 : h,
                       key = last_block ? all.first / key_block * key_block : at + key_block;
    ahead.add(key_rows(head, key), a.ldk, min(key_block, s.keys - key));
    if (a.out) ahead.add(value_rows(head, key), a.ldv, min(key_block, s.keys - key));
    if (last_block) ahead.add(elements(a.q) + (b * s.queries + t) * a.ldq + head * s.head_size, a.ldq, rows);
    return ahead;
  }

  void run(bool last_head) const {
    PackedFactor keys, values;
    Running running;
    BiasStrip bias;
    for (std::int64_t i = 0; i < rows; ++i) {
      running.maximum[i] = -__builtin_inff();
      running.total[i] = 0;
    }
    const AttentionShape& s = a.shape;
    const std::int64_t d = s.head_size;
    const Range all = keys_of_rows(s, b, t, rows);
    bool first = true;
    for (std::int64_t at = all.first / key_block * key_block; at < all.last; at += key_block, first = false) {
      const KeyBlock block(s, at);
      const Ahead ahead = ahead_of(at, all, last_head);
      if (!alone()) pack_transposed(block, d, key_rows(h, at), a.ldk, keys);
      if (!alone() && a.out) pack_rows(block, d, value_rows(h, at), a.ldv, values);
      if (s.biased()) bias.fill(s, h, t, rows, block);
      for (std::int64_t i = 0; i < rows; i += query_block) {
        const std::int64_t count = min(query_block, rows - i);
        if (first || touches(keys_of_rows(s, b, t + i, count), block))
          add_keys(block, bias, i, count, keys, values, first, ahead, running);
      }
    }
    finish(running);
  }
};

Status run_forward(const Context& context, const AttentionForward& a) {
  if (context.dtype != element_type) return Status::unsupported_dtype;
  const AttentionShape& s = a.shape;
  if (s.head_size > largest_head || s.head_size < 1) return Status::unsupported_shape;
  const DropoutRule rule(a.dropout);
  const std::int64_t across = tiles_of(s.queries, task_rows), together = heads_per_task(s.batch * s.heads * across);
  const std::int64_t head_groups = tiles_of(s.heads, together);
  parallel_for(context, s.batch * head_groups * across, [&](std::int64_t task) {
    const std::int64_t t = task % across * task_rows, rows = min(task_rows, s.queries - t);
    const std::int64_t b = task / across / head_groups, first = task / across % head_groups * together,
                       last = min(first + together, s.heads);
    for (std::int64_t h = first; h < last; ++h) ForwardTask{a, rule, b, h, t, rows}.run(h + 1 == last);
  });
  return Status::ok;
}

// Handles all query heads that share one key head, so that one thread adds dK and dV in a fixed order.
struct BackwardTask {
  const AttentionBackward& a;
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

  // The log-sum-exp of a row of scores that holds all keys of the query.
  static float lse_of(const float* score, const KeyBlock& block, Range range, F scale) {
    const F low = set(-__builtin_inff());
    F largest = low, total = zero();
    for (std::int64_t j = 0; j < block.padded; j += F::width)
      largest = max(largest, in_range(load(score + j) * scale, j, range, low));
    const float now = max_lane(largest);
    for (std::int64_t j = 0; j < block.padded; j += F::width)
      total = total + in_range(exp_at_most_one(fms(load(score + j), scale, set(now))), j, range, zero());
    return now + __builtin_logf(sum(total));
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
    const F lse = set(a.lse ? f32(a.lse)[(b * s.heads + h) * s.queries + t] : lse_of(score, block, range, scale));
    const RowDropout dropout(rule, a.dropout.samples, b, t, h, block);
    for (std::int64_t j = 0; j < block.padded; j += F::width) {
      F p = exp_at_most_one(fms(load(score + j), scale, lse));
      if (!whole) p = in_range(p, j, range, zero());
      const F d = p * scale * (dropout.apply(load(gradient + j), j) - delta);
      store(probability + j, dropout.apply(p, j));
      store(rounded + j, d);
      if (!__is_same(Element, float) && d_scores) store(gradient + j, d);
    }
  }

  // The products of rows of dO and O. Apart from the rest, so that the processor waits for many rows at once.
  void find_deltas(std::int64_t h, std::int64_t row, std::int64_t count, float* delta) const {
    for (std::int64_t r = 0; r < count; ++r) {
      const std::int64_t at = (row + r) * a.ld_out + h * a.shape.head_size;
      F products = zero();
      sweep(0, a.shape.head_size, [&](std::int64_t j, auto lanes) {
        products = fma(load(elements(a.out) + at + j, lanes), load(elements(a.d_out) + at + j, lanes), products);
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
  void add_queries(const KeyBlock& block, std::int64_t h, std::int64_t t, std::int64_t count, const Ahead& ahead,
                   Packed& packed) const {
    alignas(64) float score[query_block * largest_head];  // reused for dQ
    alignas(64) float gradient[query_block * key_block];
    const AttentionShape& s = a.shape;
    const std::int64_t d = s.head_size, row = b * s.queries + t;
    const Element* q = elements(a.q) + row * a.ldq + h * d;
    const Element* d_out = elements(a.d_out) + row * a.ld_out + h * d;
    FactorOfScores probability(score), rounded(gradient);
    float delta[query_block];
    find_deltas(h, row, count, delta);
    multiply_keys(count, block, d, q, a.ldq, packed.keys_transposed, score);
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
    add_outer(count, block, d, rounded.data, q, a.ldq, packed.d_keys);
    if (s.keys <= key_block) {
      multiply_rows(count, block, d, rounded.data, packed.keys, false, score, d);
      write_block(streams_queries(s), count, d, score, d, elements(a.dq) + row * a.ldq + h * d, a.ldq);
    } else {
      multiply_rows(count, block, d, rounded.data, packed.keys, block.first > 0, dq_sums + row * ld_sums + h * d,
                    ld_sums);
    }
  }

  // Rows to prefetch: the next block of keys, or the first rows of the next key head after the last block. Prefetching
  // does not pay off for grouped heads.
  Ahead ahead_of(const KeyBlock& block, bool last_head) const {
    const AttentionShape& s = a.shape;
    Ahead ahead{.columns = s.head_size};
    const bool last_block = block.first + key_block >= s.keys;
    if ((last_block && last_head) || s.heads != s.key_heads) return ahead;
    const std::int64_t head = last_block ? key_head + 1 : key_head, key = last_block ? 0 : block.first + key_block;
    const std::int64_t column = head * s.head_size, count = min(key_block, s.keys - key);
    ahead.add(elements(a.k) + (b * s.keys + key) * a.ldk + column, a.ldk, count);
    ahead.add(elements(a.v) + (b * s.keys + key) * a.ldv + column, a.ldv, count);
    if (!last_block) return ahead;
    ahead.add(elements(a.q) + b * s.queries * a.ldq + column, a.ldq, min(key_block, s.queries));
    ahead.add(elements(a.out) + b * s.queries * a.ld_out + column, a.ld_out, min(key_block, s.queries));
    ahead.add(elements(a.d_out) + b * s.queries * a.ld_out + column, a.ld_out, min(key_block, s.queries));
    return ahead;
  }

  void add_block(const KeyBlock& block, const Ahead& ahead, Packed& packed) const {
    const AttentionShape& s = a.shape;
    const std::int64_t d = s.head_size, group = s.heads / s.key_heads, row = b * s.keys + block.first;
    pack_transposed(block, d, elements(a.k) + row * a.ldk + key_head * d, a.ldk, packed.keys_transposed);
    pack_transposed(block, d, elements(a.v) + row * a.ldv + key_head * d, a.ldv, packed.values_transposed);
    pack_rows(block, d, elements(a.k) + row * a.ldk + key_head * d, a.ldk, packed.keys);
    for (std::int64_t i = 0; i < block.padded * d; ++i) packed.d_keys[i] = packed.d_values[i] = 0;
    for (std::int64_t h = key_head * group; h < (key_head + 1) * group; ++h)
      for (std::int64_t t = 0; t < s.queries; t += query_block) {
        const std::int64_t count = min(query_block, s.queries - t);
        if (block.first == 0 || touches(keys_of_rows(s, b, t, count), block))
          add_queries(block, h, t, count, ahead, packed);
      }
    write_block(streams_queries(s), block.keys, d, packed.d_keys, d, elements(a.dk) + row * a.ldk + key_head * d,
                a.ldk);
    write_block(streams_queries(s), block.keys, d, packed.d_values, d, elements(a.dv) + row * a.ldv + key_head * d,
                a.ldv);
  }

  void run(bool last_head) const {
    Packed packed;
    const std::int64_t group = a.shape.heads / a.shape.key_heads;
    if (d_scores)
      std::memset(d_scores_of(key_head * group), 0,
                  static_cast<std::size_t>(group * a.shape.distances()) * sizeof(float));
    for (std::int64_t at = 0; at < a.shape.keys; at += key_block) {
      const KeyBlock block(a.shape, at);
      add_block(block, ahead_of(block, last_head), packed);
    }
  }
};

// Gradients of queries that are sums over blocks of keys are rounded once, at the end.
bool sums_apart(const AttentionShape& s) { return !__is_same(Element, float) && s.keys > key_block; }

void round_queries(const Context& context, const AttentionBackward& a, const float* sums) {
  const std::int64_t rows = a.shape.batch * a.shape.queries, columns = a.shape.heads * a.shape.head_size, step = 16;
  parallel_for(context, tiles_of(rows, step), [&](std::int64_t tile) {
    const std::int64_t row = tile * step;
    copy_block(min(step, rows - row), columns, sums + row * columns, columns, elements(a.dq) + row * a.ldq, a.ldq);
  });
}

// Without a given lse, a block that holds all keys computes that of its rows. For more keys it is computed beforehand.
struct BackwardMemory {
  float *lse = nullptr, *d_scores = nullptr, *dq_sums = nullptr;
  std::size_t bytes;

  BackwardMemory(void* memory, const AttentionBackward& a) {
    const AttentionShape& s = a.shape;
    Workspace workspace(memory);
    if (!a.lse && s.keys > key_block) lse = workspace.floats(s.batch * s.heads * s.queries);
    if (s.biased()) d_scores = workspace.floats(s.batch * s.heads * s.distances());
    if (sums_apart(s)) dq_sums = workspace.floats(s.batch * s.queries * s.heads * s.head_size);
    bytes = workspace.used();
  }
};

std::size_t backward_workspace(const Context&, const AttentionBackward& a) { return BackwardMemory(nullptr, a).bytes; }

// Adds the sums of the distances to their rows of the bias, over the sequences in their order.
void add_bias_gradient(const Context& context, const AttentionBackward& a, const float* d_scores) {
  const AttentionShape& s = a.shape;
  const auto factor = static_cast<float>(1 / s.scale);
  parallel_for(context, s.heads, [&](std::int64_t h) {
    for (std::int64_t p = 0; p < s.distances(); ++p) {
      float sum = 0;
      for (std::int64_t b = 0; b < s.batch; ++b) sum += d_scores[(b * s.heads + h) * s.distances() + p];
      f32(a.d_bias)[s.bias_row[p] * s.heads + h] += sum * factor;
    }
  });
}

Status run_backward(const Context& context, const AttentionBackward& given) {
  if (context.dtype != element_type) return Status::unsupported_dtype;
  const AttentionShape& s = given.shape;
  if (s.head_size > largest_head || s.head_size < 1) return Status::unsupported_shape;
  const BackwardMemory memory(context.workspace, given);
  if (context.workspace_bytes < memory.bytes) return Status::workspace_too_small;
  AttentionBackward a = given;
  if (memory.lse) {
    AttentionForward only_lse;
    only_lse.shape = s, only_lse.lse = memory.lse;
    only_lse.q = a.q, only_lse.ldq = a.ldq, only_lse.k = a.k, only_lse.ldk = a.ldk;
    run_forward(context, only_lse);
    a.lse = memory.lse;
  }
  const DropoutRule rule(a.dropout);
  const std::int64_t together = heads_per_task(s.batch * s.key_heads), groups = tiles_of(s.key_heads, together);
  parallel_for(context, s.batch * groups, [&](std::int64_t task) {
    const std::int64_t first = task % groups * together, last = min(first + together, s.key_heads);
    for (std::int64_t head = first; head < last; ++head)
      BackwardTask{a,
                   rule,
                   a.d_bias ? memory.d_scores : nullptr,
                   memory.dq_sums ? memory.dq_sums : f32(a.dq),
                   memory.dq_sums ? s.heads * s.head_size : a.ldq,
                   task / groups,
                   head}
          .run(head + 1 == last);
  });
  if (memory.dq_sums) round_queries(context, a, memory.dq_sums);
  if (a.d_bias) add_bias_gradient(context, a, memory.d_scores);
  return Status::ok;
}

}  // namespace

void bind(Op<AttentionForward>& op) { op.run = run_forward; }
void bind(Op<AttentionBackward>& op) { op.run = run_backward, op.workspace_bytes = backward_workspace; }

}  // namespace comera::kernels::COMERA_CPU
