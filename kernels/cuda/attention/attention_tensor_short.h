// Attention's backward on tensor cores in one pass, for at most 128 keys. A block has all keys of a head, 16 per warp,
// and takes the queries in tiles of 32: five products in place of the seven of two passes, and every input is read
// once. dK and dV stay in registers. The gradients of a tile's scores pass through shared memory, and the warps share
// the rows and columns of its dQ, which is complete at once. So every sum has one owner and a fixed order.
#pragma once

#include "kernels/cuda/attention/attention_tensor_backward.h"

namespace comera::kernels::cuda {

constexpr int short_warps = 8, short_threads = short_warps * warp_size, short_keys = short_warps * tensor_warp_rows;
constexpr int short_pitch = tensor_columns + 8;  // of the scores' gradients [key][query]

template <int D>
struct ShortTile {
  static constexpr int rows = tensor_columns * tensor_pitch(D), place = 3 * rows;  // queries, dO, O
  static constexpr std::size_t bytes = tensor_tile_bytes(D, 2 * short_keys + 2 * 3 * tensor_columns) +
                                       sizeof(Bf16) * short_keys * short_pitch +
                                       2 * tensor_columns * sizeof(QueryFacts);
};

// Writes dO . O of the tile's queries to their facts; eight threads share a query.
template <int D>
__device__ void add_deltas(const Bf16* d_out, const Bf16* out, QueryFacts* facts) {
  const int row = static_cast<int>(threadIdx.x) / 8, column = static_cast<int>(threadIdx.x) % 8 * 8;
  float sum = 0;
#pragma unroll
  for (int i = column; i < D; i += 64) {
    float x[8], y[8];
    load_floats<8>(d_out + row * tensor_pitch(D) + i, x);
    load_floats<8>(out + row * tensor_pitch(D) + i, y);
#pragma unroll
    for (int e = 0; e < 8; ++e) sum += x[e] * y[e];
  }
  for (int bits = 1; bits < 8; bits *= 2) sum += __shfl_xor_sync(full_warp, sum, bits);
  if (column == 0) facts[row].delta = sum;
}

// dQ of 16 queries and 16 columns at a time: the sum over all keys of dS^T [key][query] and K.
template <int D>
__device__ void write_queries(const Bf16* ds, const Bf16* k, float factor, Bf16* dq, std::int64_t ld, int queries,
                              int head_size) {
  const int lane = static_cast<int>(threadIdx.x) % warp_size, warp = static_cast<int>(threadIdx.x) / warp_size;
  for (int part = warp; part < 2 * (D / 16); part += short_warps) {
    const int row = part % 2 * 16, column = part / 2 * 16;
    const Bf16 *rows = ds + (lane / 16 * 8 + lane % 8) * short_pitch + row + lane / 8 % 2 * 8,
               *columns = k + lane % 16 * tensor_pitch(D) + column + lane / 16 * 8;
    float sums[2][4] = {};
#pragma unroll
    for (int key = 0; key < short_keys; key += 16) {
      unsigned left[4], right[4];
      load_blocks_transposed(left, rows + key * short_pitch);
      load_blocks_transposed(right, columns + key * tensor_pitch(D));
      multiply_add(sums[0], left, right[0], right[1]);
      multiply_add(sums[1], left, right[2], right[3]);
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int query = row + lane / 4 + 8 * half;
      if (query >= queries) continue;
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        const float pair[2] = {sums[n][2 * half] * factor, sums[n][2 * half + 1] * factor};
        const int at = column + 8 * n + lane % 4 * 2;
        if (at < head_size) store_floats<2>(pair, dq + query * ld + at);
      }
    }
  }
}

// Grid: one block for each head and sequence.
template <int D>
__global__ void __launch_bounds__(short_threads, 2) tensor_backward_short(const AttentionBackward __grid_constant__ a) {
  begin_kernel();
  const AttentionShape& s = a.shape;
  const TensorPlace at;
  using Tile = ShortTile<D>;
  const int head_size = static_cast<int>(s.head_size), first_key = static_cast<int>(at.first_of_warp());
  auto* const k = shared_memory<Bf16>();
  Bf16 *const v = k + short_keys * tensor_pitch(D), *const tiles = v + short_keys * tensor_pitch(D),
              *const ds_of_keys = tiles + 2 * Tile::place;
  auto* const facts = reinterpret_cast<QueryFacts*>(ds_of_keys + short_keys * short_pitch);
  const std::int64_t k_at = at.batch * s.keys * a.ldk + at.head * s.head_size,
                     v_at = at.batch * s.keys * a.ldv + at.head * s.head_size,
                     q_at = at.batch * s.queries * a.ldq + at.head * s.head_size,
                     o_at = at.batch * s.queries * a.ld_out + at.head * s.head_size;
  fetch_rows<D, short_keys, short_threads>(k, static_cast<const Bf16*>(a.k) + k_at, a.ldk, 0, s.keys, head_size);
  fetch_rows<D, short_keys, short_threads>(v, static_cast<const Bf16*>(a.v) + v_at, a.ldv, 0, s.keys, head_size);

  const float scale = static_cast<float>(s.scale) * log2_of_e, factor = static_cast<float>(s.scale);
  float dk[D / 8][4] = {}, dv[D / 8][4] = {};

  const auto fetch = [&](int c, int place) {
    const int first = c * tensor_columns;
    Bf16* const to = tiles + place * Tile::place;
    const auto rows = [&](Bf16* tile, const void* from, std::int64_t begin, std::int64_t ld) {
      fetch_rows<D, tensor_columns, short_threads>(tile, static_cast<const Bf16*>(from) + begin, ld, first, s.queries,
                                                   head_size);
    };
    rows(to, a.q, q_at, a.ldq);
    rows(to + Tile::rows, a.d_out, o_at, a.ld_out);
    rows(to + 2 * Tile::rows, a.out, o_at, a.ld_out);
    if (at.warp == 0) facts[place * tensor_columns + at.lane] = facts_of(a, at.batch, at.head, first + at.lane);
  };
  for_chunks<2>(static_cast<int>(blocks_for(s.queries, tensor_columns)), fetch, [&](int c, int place) {
    const Bf16 *const q = tiles + place * Tile::place, *const d_out = q + Tile::rows;
    QueryFacts* const queries = facts + place * tensor_columns;
    add_deltas<D>(d_out, d_out + Tile::rows, queries);
    __syncthreads();
    const DropoutRule rule(a.dropout);  // read again for each tile, which takes fewer registers than to keep it
    const float keep = static_cast<float>(rule.scale);
    unsigned kept = ~0u;
    if (rule.threshold)
      kept = kept_of_keys(rule, a.dropout.samples[at.batch], c * tensor_columns + at.lane, at.head, first_key);
    Bf16* const own = ds_of_keys + (at.warp * tensor_warp_rows + at.lane / 4) * short_pitch + at.lane % 4 * 2;
#pragma unroll 1  // with 16 queries at a time two blocks fit a processor's registers
    for (int query = 0; query < tensor_columns; query += 16) {
      float score[2][4] = {}, dp[2][4] = {};
      const Bf16 *const q_rows = q + query * tensor_pitch(D), *const o_rows = d_out + query * tensor_pitch(D);
      add_dots<D>(score, at.of_warp<D>(k), q_rows);
      add_dots<D>(dp, at.of_warp<D>(v), o_rows);
      weigh_keys(score, dp, queries, kept, query, first_key, scale, keep);
#pragma unroll
      for (int n = 0; n < 2; ++n)
#pragma unroll
        for (int half = 0; half < 2; ++half)
          store_floats<2>(&dp[n][2 * half], own + 8 * half * short_pitch + query + 8 * n);
      add_weighted<D>(dv, score, o_rows);
      add_weighted<D>(dk, dp, q_rows);
    }
    __syncthreads();
    const int first = c * tensor_columns;
    write_queries<D>(ds_of_keys, k, factor, static_cast<Bf16*>(a.dq) + q_at + first * a.ldq, a.ldq,
                     static_cast<int>(s.queries) - first, head_size);
  });

  const std::int64_t rows = s.keys - first_key;
  const float keep = static_cast<float>(DropoutRule(a.dropout).scale);
  store_rows<D>(at.of_warp<D>(k), dk, factor, factor, static_cast<Bf16*>(a.dk) + k_at + first_key * a.ldk, a.ldk, rows,
                head_size);
  store_rows<D>(at.of_warp<D>(v), dv, keep, keep, static_cast<Bf16*>(a.dv) + v_at + first_key * a.ldv, a.ldv, rows,
                head_size);
}

// Larger heads would need more shared memory than every GPU has.
inline bool is_short(const AttentionShape& s) {
  return s.keys <= short_keys && s.key_heads == s.heads && s.head_size <= 64;
}

}  // namespace comera::kernels::cuda
