// Attention's backward on tensor cores in one pass, for at most 128 keys. A block has all keys of a head, 16 per warp,
// and takes the queries in spans of 128: five products in place of the seven of two passes, and every input is read
// once, all of a span's at the same time. dK and dV stay in registers. The gradients of the scores of 64 queries at a
// time pass through shared memory, and the warps share the rows and columns of their dQ, which is complete at once. So
// every sum has one owner and a fixed order.
#pragma once

#include "kernels/cuda/attention/attention_tensor_backward.h"

namespace comera::kernels::cuda {

constexpr int short_warps = 8, short_threads = short_warps * warp_size, short_keys = short_warps * tensor_warp_rows;
constexpr int short_span = short_keys;       // queries that are in shared memory at a time
constexpr int short_part = short_span / 2;   // queries whose scores' gradients are in shared memory at a time
constexpr int short_pitch = short_part + 8;  // of the scores' gradients [key][query]

template <int D>
struct ShortTile {
  static constexpr int rows = short_keys * tensor_pitch(D);
  static constexpr std::size_t bytes = tensor_tile_bytes(D, 2 * short_keys + 2 * short_span) +
                                       sizeof(Bf16) * short_keys * short_pitch + short_span * sizeof(QueryFacts);
};

// The products dO . O of a span's queries. A thread multiplies the vectors of dO that it copies itself, as in
// fetch_rows, so that no barrier is needed before.
template <int D>
struct ShortProducts {
  static constexpr int across = D / 8, step = short_threads / across, count = short_span / step;
  using Eight = Elements<unsigned, 4>;  // in words, which are cheaper than halves to choose and keep
  Eight out[count];
  const int row = static_cast<int>(threadIdx.x) / across, column = static_cast<int>(threadIdx.x) % across * 8;

  // Starts the loads of queries first .. first + count - 1 of `queries`.
  __device__ ShortProducts(const Bf16* from, std::int64_t ld, std::int64_t first, std::int64_t queries, int head_size) {
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const std::int64_t query = first + row + i * step;
      const bool valid = query < queries && column < head_size;
      out[i] = valid ? *reinterpret_cast<const Eight*>(from + query * ld + column) : Eight{};
    }
  }
  // After the thread's copies of d_out.
  __device__ void write(const Bf16* d_out, QueryFacts* facts) const {
#pragma unroll
    for (int i = 0; i < count; ++i) {
      float x[8], sum = 0;
      load_floats<8>(d_out + (row + i * step) * tensor_pitch(D) + column, x);
#pragma unroll
      for (int e = 0; e < 8; e += 2) {
        const unsigned pair = out[i].element[e / 2];
        sum += x[e] * float_of(pair << 16) + x[e + 1] * float_of(pair & 0xFFFF0000u);
      }
      for (int bits = 1; bits < across; bits *= 2) sum += __shfl_xor_sync(full_warp, sum, bits);
      if (column == 0) facts[row + i * step].delta = sum;
    }
  }
};

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

// Bits 16 i .. 16 i + 15 are the warp's keys that dropout keeps for query first + 32 i + lane.
__device__ inline std::uint64_t kept_of_span(const DropoutRule& rule, std::int64_t sample, int first,
                                             const TensorPlace& at) {
  std::uint64_t kept = 0;
#pragma unroll 1  // keeps the registers of two draws only
  for (int query = short_span - warp_size; query >= 0; query -= warp_size)
    kept = kept << 16 | kept_of_keys(rule, sample, first + query + at.lane, at.head, at.warp * tensor_warp_rows);
  return kept;
}

// dQ of 16 queries and half of the columns for each warp: the sum over all keys of dS^T [key][query] and K. `q`: rows
// of shared memory for the result, which no other warp uses.
template <int D>
__device__ void write_queries(const Bf16* ds, const Bf16* k, float factor, Bf16* q, Bf16* dq, std::int64_t ld,
                              int queries, int head_size) {
  constexpr int columns = D / 2;
  static_assert(short_warps == short_part / tensor_warp_rows * 2);
  const int lane = static_cast<int>(threadIdx.x) % warp_size, warp = static_cast<int>(threadIdx.x) / warp_size;
  const int row = warp / 2 * tensor_warp_rows, column = warp % 2 * columns;
  ds += (lane / 16 * 8 + lane % 8) * short_pitch + row + lane / 8 % 2 * 8;
  k += lane % 16 * tensor_pitch(D) + column + lane / 16 * 8;
  float sums[columns / 8][4] = {};
#pragma unroll
  for (int key = 0; key < short_keys; key += 16) {
    unsigned left[4];
    load_blocks_transposed(left, ds + key * short_pitch);
#pragma unroll
    for (int n = 0; n < columns / 8; n += 2) {
      unsigned right[4];
      load_blocks_transposed(right, k + key * tensor_pitch(D) + 8 * n);
      multiply_add(sums[n], left, right[0], right[1]);
      multiply_add(sums[n + 1], left, right[2], right[3]);
    }
  }
  store_rows<D, columns>(q + row * tensor_pitch(D) + column, sums, factor, factor, dq + row * ld + column, ld,
                         queries - row, head_size - column);
}

// Adds a span's part to dK and dV of the warp's keys and values, k and v, and writes its scores' gradients.
template <int D>
__device__ void add_part(const TensorPlace& at, const Bf16* k, const Bf16* v, const Bf16* q, const Bf16* d_out,
                         const QueryFacts* facts, std::uint64_t kept, int part, float scale, float keep, Bf16* ds,
                         float (&dk)[D / 8][4], float (&dv)[D / 8][4]) {
  const int first_key = at.warp * tensor_warp_rows;
  Bf16* const own = ds + (first_key + at.lane / 4) * short_pitch + at.lane % 4 * 2;
#pragma unroll 1  // with 16 queries at a time two blocks fit a processor's registers
  for (int query = 0; query < short_part; query += 16) {
    const int of_span = part + query, from = of_span / warp_size * warp_size;
    const auto bits = static_cast<unsigned>(kept >> (from / 2));
    float score[2][4] = {}, dp[2][4] = {};
    const Bf16 *const q_rows = q + of_span * tensor_pitch(D), *const o_rows = d_out + of_span * tensor_pitch(D);
    add_dots<D>(score, k, q_rows);
    add_dots<D>(dp, v, o_rows);
    weigh_keys(score, dp, facts + from, bits, of_span - from, first_key, scale, keep);
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
  const int head_size = static_cast<int>(s.head_size), first_key = at.warp * tensor_warp_rows;
  auto* const k = shared_memory<Bf16>();
  Bf16 *const v = k + Tile::rows, *const q = v + Tile::rows, *const d_out = q + Tile::rows,
              *const ds = d_out + Tile::rows;
  auto* const facts = reinterpret_cast<QueryFacts*>(ds + short_keys * short_pitch);
  const std::int64_t k_at = at.batch * s.keys * a.ldk + at.head * s.head_size,
                     v_at = at.batch * s.keys * a.ldv + at.head * s.head_size,
                     q_at = at.batch * s.queries * a.ldq + at.head * s.head_size,
                     o_at = at.batch * s.queries * a.ld_out + at.head * s.head_size;
  const auto fetch = [&](Bf16* to, const void* from, std::int64_t begin, std::int64_t ld, int first,
                         std::int64_t rows) {
    fetch_rows<D, short_keys, short_threads>(to, static_cast<const Bf16*>(from) + begin, ld, first, rows, head_size);
  };
  fetch(k, a.k, k_at, a.ldk, 0, s.keys);
  fetch(v, a.v, v_at, a.ldv, 0, s.keys);
  const float scale = static_cast<float>(s.scale) * log2_of_e, factor = static_cast<float>(s.scale);
  float dk[D / 8][4] = {}, dv[D / 8][4] = {}, keep = 1;

  for (int first = 0; first < static_cast<int>(s.queries); first += short_span) {
    if (first > 0) __syncthreads();  // other warps may still read the scores' gradients
    fetch(q, a.q, q_at, a.ldq, first, s.queries);
    fetch(d_out, a.d_out, o_at, a.ld_out, first, s.queries);
    commit_copies();
    const DropoutWords words(a.dropout, at.batch);
    const ShortProducts<D> products(static_cast<const Bf16*>(a.out) + o_at, a.ld_out, first, s.queries, head_size);
    const int t = static_cast<int>(threadIdx.x);
    const QueryFacts own = facts_of(a, at.batch, at.head, t < short_span ? first + t : s.queries);
    std::uint64_t kept = ~std::uint64_t{0};
    {
      const DropoutRule rule = words.rule(a.dropout);  // and the draws, while the loads are under way
      keep = static_cast<float>(rule.scale);
      if (rule.threshold) kept = kept_of_span(rule, words.sample, first, at);
    }
    if (t < short_span) facts[t].begin = own.begin, facts[t].end = own.end, facts[t].lse = own.lse;
    wait_for_copies<0>();
    products.write(d_out, facts);
    __syncthreads();
    for (int part = 0; part < short_span && first + part < s.queries; part += short_part) {
      if (part > 0) __syncthreads();  // other warps may still read the scores' gradients
      add_part<D>(at, at.of_warp<D>(k), at.of_warp<D>(v), q, d_out, facts, kept, part, scale, keep, ds, dk, dv);
      __syncthreads();
      write_queries<D>(ds, k, factor, q + part * tensor_pitch(D),
                       static_cast<Bf16*>(a.dq) + q_at + (first + part) * a.ldq, a.ldq,
                       static_cast<int>(s.queries) - first - part, head_size);
    }
  }

  // no other warp uses these rows of V and, since the last barrier, of dO
  const std::int64_t rows = s.keys - first_key;
  store_rows<D>(at.of_warp<D>(d_out), dk, factor, factor, static_cast<Bf16*>(a.dk) + k_at + first_key * a.ldk, a.ldk,
                rows, head_size);
  store_rows<D>(at.of_warp<D>(v), dv, keep, keep, static_cast<Bf16*>(a.dv) + v_at + first_key * a.ldv, a.ldv, rows,
                head_size);
}

// Larger heads would need more shared memory than every GPU has.
inline bool is_short(const AttentionShape& s) {
  return s.keys <= short_keys && s.key_heads == s.heads && s.head_size <= 64;
}

}  // namespace comera::kernels::cuda
