// Attention's backward on tensor cores: Dao 2023, arXiv 2307.08691, algorithm 2, in two passes, so that every sum has
// one owner and a fixed order (attention_tensor_short.h: in one pass, for short sequences). The first pass has queries
// as rows and computes dQ and the row products dO . O for the second pass. The second pass has keys as rows and
// computes dK and dV. Both recompute the probabilities from the statistics that the forward stored.
#pragma once

#include "kernels/cuda/attention/attention_tensor.h"

namespace comera::kernels::cuda {

template <int D>
constexpr std::size_t tensor_backward_queries_shared() {
  return tensor_tile_bytes(D, 2 * tensor_rows + 2 * 2 * tensor_columns);  // queries and dO; keys and values twice
}

// dO . O of one row, computed by its four lanes.
__device__ inline float row_product(const AttentionBackward& a, const TensorPlace& at, int half) {
  const AttentionShape& s = a.shape;
  float sum = 0;
  if (at.row(half) < s.queries) {
    const std::int64_t row = (at.batch * s.queries + at.row(half)) * a.ld_out + at.head * s.head_size;
    for (std::int64_t i = at.lane % 4 * 8; i < s.head_size; i += 32) {
      float x[8], y[8];
      load_floats<8>(static_cast<const Bf16*>(a.out) + row + i, x);
      load_floats<8>(static_cast<const Bf16*>(a.d_out) + row + i, y);
      for (int e = 0; e < 8; ++e) sum += x[e] * y[e];
    }
  }
  return reduce_row_lanes(sum, Add{});
}

// Per-query values that the gradients need.
struct alignas(16) QueryFacts {
  int begin, end;    // range of its keys
  float lse, delta;  // log2 of its sum of exponentials; dO . O

  COMERA_DEVICE bool has(int key) const { return begin <= key && key < end; }
  COMERA_DEVICE float weight(float score, float scale) const { return fast_exp2(score * scale - lse); }
};
__device__ inline QueryFacts facts_of(const AttentionBackward& a, std::int64_t batch, std::int64_t head,
                                      std::int64_t query) {
  if (query >= a.shape.queries) return {0, 0, 0, 0};
  // not after the range is known, so that the loads overlap
  const float lse = static_cast<const float*>(a.lse)[(batch * a.shape.heads + head) * a.shape.queries + query];
  const KeyRange range = range_of(a.shape, batch, query);
  if (range.empty()) return {0, 0, 0, 0};
  return {static_cast<int>(range.begin), static_cast<int>(range.end), lse * log2_of_e, 0};
}

template <int D>
__global__ void __launch_bounds__(tensor_threads, D <= 64 ? 4 : 2)
    tensor_backward_queries(const AttentionBackward __grid_constant__ a, float* deltas) {
  begin_kernel();
  __shared__ BlockDropout dropout;
  const AttentionShape& s = a.shape;
  const TensorPlace at;
  const int head_size = static_cast<int>(s.head_size);
  auto* const q = shared_memory<Bf16>();
  Bf16 *const d_out = q + tensor_rows * tensor_pitch(D), *const tiles = d_out + tensor_rows * tensor_pitch(D);
  const std::int64_t q_at = at.batch * s.queries * a.ldq + at.head * s.head_size,
                     o_at = at.batch * s.queries * a.ld_out + at.head * s.head_size;
  fetch_rows<D, tensor_rows>(q, static_cast<const Bf16*>(a.q) + q_at, a.ldq, at.first_row, s.queries, head_size);
  fetch_rows<D, tensor_rows>(d_out, static_cast<const Bf16*>(a.d_out) + o_at, a.ld_out, at.first_row, s.queries,
                             head_size);

  const TensorRange range(s, at);
  const float scale = static_cast<float>(s.scale) * log2_of_e;
  QueryFacts row[2];
  for (int half = 0; half < 2; ++half) {
    row[half] = facts_of(a, at.batch, at.head, at.row(half));
    row[half].delta = row_product(a, at, half);
    if (at.lane % 4 == 0 && at.row(half) < s.queries)
      deltas[(at.batch * s.heads + at.head) * s.queries + at.row(half)] = row[half].delta;
  }
  float sum[D / 8][4] = {};

  for_keys<D>(a, at, range, tiles, dropout, [&](int first, const Bf16* k, const Bf16* v) {
    const KeptOfRows kept(dropout, at, first);
    const int own = first + at.lane % 4 * 2;
    float score[column_blocks][4] = {}, dp[column_blocks][4] = {};
    add_dots<D>(score, at.of_warp<D>(q), k);
    add_dots<D>(dp, at.of_warp<D>(d_out), v);
    if (dropout.threshold) {
#pragma unroll
      for (int n = 0; n < column_blocks; ++n) {
        const unsigned word = kept.word(at.lane, n);
#pragma unroll
        for (int i = 0; i < 4; ++i) dp[n][i] = kept.has(word, at.lane, i / 2, i % 2) ? dp[n][i] * dropout.keep : 0.0f;
      }
    }
#pragma unroll
    for (int n = 0; n < column_blocks; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const QueryFacts& query = row[i / 2];
        score[n][i] =
            query.has(own + 8 * n + i % 2) ? query.weight(score[n][i], scale) * (dp[n][i] - query.delta) : 0.0f;
      }
    add_weighted<D>(sum, score, k);
  });

  Bf16* const dq = static_cast<Bf16*>(a.dq) + q_at + at.first_of_warp() * a.ldq;
  const float factor = static_cast<float>(s.scale);
  store_rows<D>(at.of_warp<D>(q), sum, factor, factor, dq, a.ldq, s.queries - at.first_of_warp(), head_size);
}

template <int D>
constexpr std::size_t tensor_backward_keys_shared() {
  // keys and values once; queries, dO and QueryFacts in two buffers
  return tensor_tile_bytes(D, 2 * tensor_rows + 2 * 2 * tensor_columns) + 2 * tensor_columns * sizeof(QueryFacts);
}

// The smallest range of queries that covers all that attend to any of `count` keys from `first` on. Every lane of a
// warp gets the same result.
__device__ inline KeyRange joined_queries(const AttentionShape& s, std::int64_t batch, std::int64_t first, int count) {
  if (!s.key_begin && !s.key_end) return {0, s.queries};
  std::int64_t begin = s.queries, end = 0;
  for (std::int64_t t = static_cast<int>(threadIdx.x) % warp_size; t < s.queries; t += warp_size) {
    const KeyRange range = range_of(s, batch, t);
    if (range.empty() || range.begin >= first + count || range.end <= first) continue;
    begin = begin < t ? begin : t;
    end = t + 1;
  }
  return {-reduce_warp(-begin, Larger{}), reduce_warp(end, Larger{})};
}

// One bit for each of the warp's keys, for the lane's query.
__device__ inline unsigned kept_of_keys(const DropoutRule& rule, std::int64_t sample, std::int64_t query,
                                        std::int64_t head, int first_key) {
  const DropoutRule own = renewed(rule);
  unsigned kept = 0;
#pragma unroll
  for (int i = 0; i < 2; ++i) kept |= kept_keys(own, sample, query, head, first_key + 8 * i) << (8 * i);
  return kept;
}

// Scores of the warp's keys become probabilities times the dropout factors, without `keep`, and the gradients of
// probabilities become those of scores. Queries from first_query of the tile on.
template <int blocks>
__device__ void weigh_keys(float (&score)[blocks][4], float (&dp)[blocks][4], const QueryFacts* queries, unsigned kept,
                           int first_query, int first_key, float scale, float keep) {
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
#pragma unroll
  for (int n = 0; n < blocks; ++n)
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int column = first_query + 8 * n + lane % 4 * 2 + j;
      const QueryFacts query = queries[column];
      const unsigned bits = __shfl_sync(full_warp, kept, column) >> (lane / 4);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float &weight = score[n][2 * half + j], &ds = dp[n][2 * half + j];
        const bool is_kept = bits >> (8 * half) & 1u;
        const float p = query.has(first_key + lane / 4 + 8 * half) ? query.weight(weight, scale) : 0.0f;
        weight = is_kept ? p : 0.0f;
        ds = p * ((is_kept ? ds * keep : 0.0f) - query.delta);
      }
    }
}

// Rows are keys, columns are queries. blockIdx.y is a key head; the sums of its query heads are added in order.
template <int D>
__global__ void __launch_bounds__(tensor_threads, D <= 64 ? 3 : 2)
    tensor_backward_keys(const AttentionBackward __grid_constant__ a, const float* deltas) {
  begin_kernel();
  const AttentionShape& s = a.shape;
  const TensorPlace at;
  const int group = static_cast<int>(s.heads / s.key_heads), head_size = static_cast<int>(s.head_size);
  auto* const k = shared_memory<Bf16>();
  Bf16 *const v = k + tensor_rows * tensor_pitch(D), *const tiles = v + tensor_rows * tensor_pitch(D);
  constexpr int tile = tensor_columns * tensor_pitch(D);
  auto* const facts = reinterpret_cast<QueryFacts*>(tiles + 2 * 2 * tile);
  const std::int64_t k_at = at.batch * s.keys * a.ldk + at.head * s.head_size,
                     v_at = at.batch * s.keys * a.ldv + at.head * s.head_size;
  fetch_rows<D, tensor_rows>(k, static_cast<const Bf16*>(a.k) + k_at, a.ldk, at.first_row, s.keys, head_size);
  fetch_rows<D, tensor_rows>(v, static_cast<const Bf16*>(a.v) + v_at, a.ldv, at.first_row, s.keys, head_size);

  const DropoutRule rule(a.dropout);
  const std::int64_t sample = rule.threshold ? a.dropout.samples[at.batch] : 0;
  const float scale = static_cast<float>(s.scale) * log2_of_e, keep = static_cast<float>(rule.scale);
  const KeyRange visited = joined_queries(s, at.batch, at.first_row, tensor_rows);
  const int begin = static_cast<int>(visited.begin) / tensor_columns * tensor_columns;
  const int tiles_of_head = visited.empty() ? 0 : static_cast<int>(blocks_for(visited.end - begin, tensor_columns));
  const int first_key = static_cast<int>(at.first_of_warp());
  float dk[D / 8][4] = {}, dv[D / 8][4] = {};

  const auto fetch = [&](int c, int place) {
    const std::int64_t head = at.head * group + c / tiles_of_head;
    const int first = begin + c % tiles_of_head * tensor_columns;
    const Bf16* const q_rows = static_cast<const Bf16*>(a.q) + at.batch * s.queries * a.ldq + head * s.head_size;
    const Bf16* const o_rows = static_cast<const Bf16*>(a.d_out) + at.batch * s.queries * a.ld_out + head * s.head_size;
    fetch_rows<D, tensor_columns>(tiles + 2 * place * tile, q_rows, a.ldq, first, s.queries, head_size);
    fetch_rows<D, tensor_columns>(tiles + (2 * place + 1) * tile, o_rows, a.ld_out, first, s.queries, head_size);
    if (at.warp > 0) return;
    QueryFacts own = facts_of(a, at.batch, head, first + at.lane);
    if (own.begin < own.end) own.delta = deltas[(at.batch * s.heads + head) * s.queries + first + at.lane];
    facts[place * tensor_columns + at.lane] = own;
  };
  for_chunks<2>(tiles_of_head * group, fetch, [&](int c, int place) {
    const QueryFacts* const queries = facts + place * tensor_columns;
    const QueryFacts of_lane = queries[at.lane];
    if (!__any_sync(full_warp, of_lane.begin < first_key + tensor_warp_rows && of_lane.end > first_key &&
                                   of_lane.begin < of_lane.end))
      return;
    float score[column_blocks][4] = {}, dp[column_blocks][4] = {};
    add_dots<D>(score, at.of_warp<D>(k), tiles + 2 * place * tile);
    add_dots<D>(dp, at.of_warp<D>(v), tiles + (2 * place + 1) * tile);
    const std::int64_t head = at.head * group + c / tiles_of_head,
                       query = begin + c % tiles_of_head * tensor_columns + at.lane;
    const unsigned kept = rule.threshold ? kept_of_keys(rule, sample, query, head, first_key) : ~0u;
    weigh_keys(score, dp, queries, kept, 0, first_key, scale, keep);
    add_weighted<D>(dv, score, tiles + (2 * place + 1) * tile);
    add_weighted<D>(dk, dp, tiles + 2 * place * tile);
  });

  const std::int64_t rows = s.keys - at.first_of_warp();
  const float factor = static_cast<float>(s.scale);
  store_rows<D>(at.of_warp<D>(k), dk, factor, factor, static_cast<Bf16*>(a.dk) + k_at + at.first_of_warp() * a.ldk,
                a.ldk, rows, head_size);
  store_rows<D>(at.of_warp<D>(v), dv, keep, keep, static_cast<Bf16*>(a.dv) + v_at + at.first_of_warp() * a.ldv, a.ldv,
                rows, head_size);
}

inline bool takes_tensor_cores(const AttentionBackward& a) {
  return fits_tensor_cores(a.shape) && rows_are_aligned<Bf16>(a.q, a.ldq) && rows_are_aligned<Bf16>(a.k, a.ldk) &&
         rows_are_aligned<Bf16>(a.v, a.ldv) && rows_are_aligned<Bf16>(a.out, a.ld_out) &&
         rows_are_aligned<Bf16>(a.d_out, a.ld_out) && rows_are_aligned<Bf16>(a.dq, a.ldq) &&
         rows_are_aligned<Bf16>(a.dk, a.ldk) && rows_are_aligned<Bf16>(a.dv, a.ldv);
}

}  // namespace comera::kernels::cuda
