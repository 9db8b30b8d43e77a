// CPU attention in blocks of 64 queries by 128 keys. Scores, probabilities and their gradients exist for one block at a
// time, on the stack. As factors of products, probabilities and gradients of scores have the type of activations.
#include "kernels/cpu/common/attention_backward.h"
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

// The gradients of the key heads. `coded` is null, or the call that `a` is of.
void differentiate(const Context& context, const AttentionBackward& a, const CodedAttentionBackward* coded,
                   const BackwardMemory& memory) {
  const AttentionShape& s = a.shape;
  const DropoutRule rule(a.dropout);
  const std::int64_t together = heads_per_task(s.batch * s.key_heads), groups = tiles_of(s.key_heads, together);
  parallel_for(context, s.batch * groups, [&](std::int64_t task) {
    const std::int64_t first = task % groups * together, last = min(first + together, s.key_heads);
    for (std::int64_t head = first; head < last; ++head) {
      const BackwardTask of_head{a,
                                 coded,
                                 rule,
                                 a.d_bias ? memory.d_scores : nullptr,
                                 memory.dq_sums ? memory.dq_sums : f32(a.dq),
                                 memory.dq_sums ? s.heads * s.head_size : a.ldq,
                                 task / groups,
                                 head};
      if (coded) {
        RestoredHead restored;
        of_head.run(head + 1 == last, &restored);
      } else {
        of_head.run(head + 1 == last, nullptr);
      }
    }
  });
  if (memory.dq_sums) round_queries(context, a, memory.dq_sums);
  if (a.d_bias) add_bias_gradient(context, a, memory.d_scores);
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
  differentiate(context, a, nullptr, memory);
  return Status::ok;
}

std::size_t coded_workspace(const Context& context, const CodedAttentionBackward& a) {
  return backward_workspace(context, a.attention);
}

Status run_coded(const Context& context, const CodedAttentionBackward& a) {
  if (context.dtype != element_type) return Status::unsupported_dtype;
  if (!fits(a) || a.attention.shape.head_size < 1) return Status::unsupported_shape;
  const BackwardMemory memory(context.workspace, a.attention);
  if (context.workspace_bytes < memory.bytes) return Status::workspace_too_small;
  differentiate(context, a.attention, &a, memory);
  return Status::ok;
}

}  // namespace

void bind(Op<AttentionForward>& op) { op.run = run_forward; }
void bind(Op<AttentionBackward>& op) { op.run = run_backward, op.workspace_bytes = backward_workspace; }
void bind(Op<CodedAttentionBackward>& op) { op.run = run_coded, op.workspace_bytes = coded_workspace; }

}  // namespace comera::kernels::COMERA_CPU
