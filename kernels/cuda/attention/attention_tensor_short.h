// Attention's backward on tensor cores in one pass, for at most 128 keys and queries. A block has all keys of a head,
// 16 per warp: five products in place of the seven of two passes, and every input is read once, all at the same time;
// the products with half of the queries begin when these have arrived. dK and dV stay in registers, and so do a warp's
// values, because most of the time goes to reads of shared memory. The gradients of the scores pass through it, and the
// warps share the rows and columns of dQ, which is complete at once. So every sum has one owner and a fixed order.
#pragma once

#include "kernels/cuda/attention/attention_tensor_backward.h"

namespace comera::kernels::cuda {

constexpr int short_warps = 8, short_threads = short_warps * warp_size, short_keys = short_warps * tensor_warp_rows;
constexpr int short_queries = short_keys, short_part = short_queries / 2;  // queries whose inputs arrive together
constexpr int short_pitch = short_queries + 8;                             // of the scores' gradients [key][query]

template <int D>
struct ShortTile {
  static constexpr int rows = short_keys * tensor_pitch(D);
  static constexpr std::size_t bytes = tensor_tile_bytes(D, 2 * short_keys + 2 * short_queries) +
                                       sizeof(Bf16) * short_keys * short_pitch + short_queries * sizeof(QueryFacts);
};

// Starts the copies of `out`, the layer's result for a part of the queries.
template <int D>
__device__ void fetch_out(Bf16* to, const Bf16* out, std::int64_t ld, std::int64_t queries, int head_size) {
  copy_rows<short_part, D / 8, short_pitch, short_threads>(to, out, ld, max(queries, std::int64_t{0}), head_size);
}
// Its products with d_out. A thread multiplies what it copies itself in fetch_out and fetch_rows, so that no barrier is
// needed before.
template <int D>
__device__ void write_products(const Bf16* d_out, const Bf16* out, QueryFacts* facts) {
  constexpr int across = D / 8, step = short_threads / across;
  int t = static_cast<int>(threadIdx.x);
  asm volatile("" : "+r"(t));  // computes the place anew, because registers are few
  const int first = t / across, column = t % across * 8;
#pragma unroll
  for (int row = first; row < first + short_part; row += step) {
    float x[8], y[8], sum = 0;
    load_floats<8>(d_out + row * tensor_pitch(D) + column, x);
    load_floats<8>(out + row * short_pitch + column, y);
#pragma unroll
    for (int e = 0; e < 8; ++e) sum += x[e] * y[e];
    for (int bits = 1; bits < across; bits *= 2) sum += __shfl_xor_sync(full_warp, sum, bits);
    if (column == 0) facts[row].delta = sum;
  }
}

// The numbers in device memory that a sequence's dropout depends on: loaded together with others, before the rule is
// computed.
struct DropoutWords {
  StepScalars scalars;
  std::int64_t sample = 0;

  __device__ DropoutWords(const Dropout& dropout, std::int64_t batch) {
    if (dropout.probability <= 0) return;
    sample = dropout.samples[batch];
    scalars.seed = dropout.scalars->seed, scalars.step = dropout.scalars->step;
  }
  __device__ DropoutRule rule(Dropout dropout) const {
    dropout.scalars = &scalars;
    return DropoutRule(dropout);
  }
};

// Bits 16 i .. 16 i + 15 are the warp's keys that dropout keeps for query 32 i + lane.
__device__ inline std::uint64_t kept_of_queries(const DropoutRule& rule, std::int64_t sample, const TensorPlace& at) {
  std::uint64_t kept = 0;
#pragma unroll 1  // keeps the registers of two draws only
  for (int query = short_queries - warp_size; query >= 0; query -= warp_size)
    kept = kept << 16 | kept_of_keys(rule, sample, query + at.lane, at.head, at.warp * tensor_warp_rows);
  return kept;
}

// dQ of 32 queries and half of the columns for each warp: the sum over all keys of dS^T [key][query] and K. `q`: rows
// of shared memory for the result, which no other warp uses.
template <int D>
__device__ void write_queries(const Bf16* ds, const Bf16* k, float factor, Bf16* q, Bf16* dq, std::int64_t ld,
                              int queries, int head_size) {
  constexpr int columns = D / 2, blocks = columns / 8, rows = 2 * tensor_warp_rows;
  static_assert(short_warps == short_queries / rows * 2);
  const int lane = static_cast<int>(threadIdx.x) % warp_size, warp = static_cast<int>(threadIdx.x) / warp_size;
  const int row = warp / 2 * rows, column = warp % 2 * columns;
  if (row >= queries) return;
  ds += (lane / 16 * 8 + lane % 8) * short_pitch + row + lane / 8 % 2 * 8;
  k += lane % 16 * tensor_pitch(D) + column + lane / 16 * 8;
  float sums[2][blocks][4] = {};
#pragma unroll
  for (int key = 0; key < short_keys; key += 16) {
    unsigned left[2][4];
#pragma unroll
    for (int m = 0; m < 2; ++m) load_blocks_transposed(left[m], ds + key * short_pitch + m * tensor_warp_rows);
#pragma unroll
    for (int n = 0; n < blocks; n += 2) {
      unsigned right[4];
      load_blocks_transposed(right, k + key * tensor_pitch(D) + 8 * n);
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        multiply_add(sums[m][n], left[m], right[0], right[1]);
        multiply_add(sums[m][n + 1], left[m], right[2], right[3]);
      }
    }
  }
#pragma unroll
  for (int m = 0; m < 2; ++m) {
    const int first = row + m * tensor_warp_rows;
    store_rows<D, columns>(q + first * tensor_pitch(D) + column, sums[m], factor, factor, dq + first * ld + column, ld,
                           queries - first, head_size - column);
  }
}

// A warp's rows as left operands, which it keeps in registers.
template <int D>
struct RowBlocks {
  unsigned block[D / 16][4];

  __device__ explicit RowBlocks(const Bf16* rows) {
    const int lane = static_cast<int>(threadIdx.x) % warp_size;
    rows += lane % 16 * tensor_pitch(D) + lane / 16 * 8;
#pragma unroll
    for (int k = 0; k < D / 16; ++k) load_blocks(block[k], rows + 16 * k);
  }
  // sums += the rows times 16 columns
  __device__ void add_dots(float (&sums)[2][4], const Bf16* columns) const {
    const int lane = static_cast<int>(threadIdx.x) % warp_size;
    columns += (lane / 16 * 8 + lane % 8) * tensor_pitch(D) + lane / 8 % 2 * 8;
#pragma unroll
    for (int k = 0; k < D / 16; ++k) {
      unsigned right[4];
      load_blocks(right, columns + 16 * k);
      multiply_add(sums[0], block[k], right[0], right[1]);
      multiply_add(sums[1], block[k], right[2], right[3]);
    }
  }
};

// Adds queries first .. end - 1 to dK and dV of the warp's keys and values, k and v, and writes their scores'
// gradients.
template <int D>
__device__ void add_part(const TensorPlace& at, const Bf16* k, const Bf16* v, const Bf16* q, const Bf16* d_out,
                         const QueryFacts* facts, std::uint64_t kept, int first, int end, float scale, float keep,
                         Bf16* ds, float (&dk)[D / 8][4], float (&dv)[D / 8][4]) {
  const int first_key = at.warp * tensor_warp_rows;
  Bf16* const own = ds + (first_key + at.lane / 4) * short_pitch + at.lane % 4 * 2;
  const RowBlocks<D> values(v);  // not the keys too: two blocks would not fit a processor's registers
#pragma unroll 1                 // with 16 queries at a time they do
  for (int query = first; query < end; query += 16) {
    const int from = query / warp_size * warp_size;
    const auto bits = static_cast<unsigned>(kept >> (from / 2));
    float score[2][4] = {}, dp[2][4] = {};
    const Bf16 *const q_rows = q + query * tensor_pitch(D), *const o_rows = d_out + query * tensor_pitch(D);
    add_dots<D>(score, k, q_rows);
    values.add_dots(dp, o_rows);
    weigh_keys(score, dp, facts + from, bits, query - from, first_key, scale, keep);
#pragma unroll
    for (int n = 0; n < 2; ++n)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        store_floats<2>(&dp[n][2 * half], own + 8 * half * short_pitch + query + 8 * n);
    add_weighted<D>(dv, score, o_rows);
    add_weighted<D>(dk, dp, q_rows);
  }
}

// Grid: one block for each head and sequence.
template <int D>
__global__ void __launch_bounds__(short_threads, 2) tensor_backward_short(const AttentionBackward __grid_constant__ a) {
  begin_kernel();
  const AttentionShape& s = a.shape;
  const TensorPlace at;
  using Tile = ShortTile<D>;
  const int head_size = static_cast<int>(s.head_size), queries = static_cast<int>(s.queries),
            t = static_cast<int>(threadIdx.x);
  auto* const k = shared_memory<Bf16>();
  Bf16 *const v = k + Tile::rows, *const q = v + Tile::rows, *const d_out = q + Tile::rows,
              *const ds = d_out + Tile::rows;
  auto* const facts = reinterpret_cast<QueryFacts*>(ds + short_keys * short_pitch);
  // computed at every use, because registers are few during the products
  const auto first_of = [&](std::int64_t rows, std::int64_t ld) {
    auto batch = static_cast<int>(blockIdx.z), head = static_cast<int>(blockIdx.y);
    asm volatile("" : "+r"(batch), "+r"(head));
    return batch * rows * ld + head * s.head_size;
  };
  const auto fetch = [&](Bf16* to, const void* from, std::int64_t begin, std::int64_t ld, int first,
                         std::int64_t rows) {
    fetch_rows<D, short_part, short_threads>(to + first * tensor_pitch(D), static_cast<const Bf16*>(from) + begin, ld,
                                             first, rows, head_size);
  };
  const auto fetch_part = [&](int first) {
    fetch(q, a.q, first_of(s.queries, a.ldq), a.ldq, first, s.queries);
    fetch(d_out, a.d_out, first_of(s.queries, a.ld_out), a.ld_out, first, s.queries);
    fetch_out<D>(ds + first, static_cast<const Bf16*>(a.out) + first_of(s.queries, a.ld_out) + first * a.ld_out,
                 a.ld_out, s.queries - first, head_size);
    commit_copies();
  };
  for (int first = 0; first < short_keys; first += short_part) {
    fetch(k, a.k, first_of(s.keys, a.ldk), a.ldk, first, s.keys);
    fetch(v, a.v, first_of(s.keys, a.ldv), a.ldv, first, s.keys);
  }
  fetch_part(0);
  fetch_part(short_part);
  const DropoutWords words(a.dropout, at.batch);
  const QueryFacts own = facts_of(a, at.batch, at.head, t < short_queries ? t : s.queries);
  const float scale = static_cast<float>(s.scale) * log2_of_e, factor = static_cast<float>(s.scale);
  float dk[D / 8][4] = {}, dv[D / 8][4] = {};
  std::uint64_t kept = ~std::uint64_t{0};
  const DropoutRule rule = words.rule(a.dropout);  // and the draws, while the loads are under way
  const float keep = static_cast<float>(rule.scale);
  if (rule.threshold) kept = kept_of_queries(rule, words.sample, at);
  if (t < short_queries) facts[t].begin = own.begin, facts[t].end = own.end, facts[t].lse = own.lse;

#pragma unroll 1
  for (int first = 0; first < short_queries; first += short_part) {
    if (first == 0)
      wait_for_copies<1>();
    else
      wait_for_copies<0>();
    write_products<D>(d_out + first * tensor_pitch(D), ds + first, facts + first);
    __syncthreads();
    add_part<D>(at, at.of_warp<D>(k), at.of_warp<D>(v), q, d_out, facts, kept, first, min(queries, first + short_part),
                scale, keep, ds, dk, dv);
  }
  __syncthreads();

  // of these rows other warps use none of V and, since the last barrier, none of dO
  const int first_key = at.warp * tensor_warp_rows;
  const std::int64_t rows = s.keys - first_key;
  store_rows<D>(at.of_warp<D>(d_out), dk, factor, factor,
                static_cast<Bf16*>(a.dk) + first_of(s.keys, a.ldk) + first_key * a.ldk, a.ldk, rows, head_size);
  store_rows<D>(at.of_warp<D>(v), dv, keep, keep,
                static_cast<Bf16*>(a.dv) + first_of(s.keys, a.ldv) + first_key * a.ldv, a.ldv, rows, head_size);
  write_queries<D>(ds, k, factor, q, static_cast<Bf16*>(a.dq) + first_of(s.queries, a.ldq), a.ldq, queries, head_size);
}

// Larger heads would need more shared memory than GPUs have, and some have too little for these.
inline bool is_short(const AttentionShape& s) {
  return s.keys <= short_keys && s.queries <= short_queries && s.key_heads == s.heads && s.head_size <= 64 &&
         ShortTile<64>::bytes <= shared_limit();
}

}  // namespace comera::kernels::cuda
