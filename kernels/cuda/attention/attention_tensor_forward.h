// Attention's forward on tensor cores: Dao 2023, arXiv 2307.08691, algorithm 1. For each of its rows a warp keeps the
// running maximum of the scores, the sum of exponentials and the weighted sum of values.
#pragma once

#include "kernels/cuda/attention/attention_tensor.h"

namespace comera::kernels::cuda {

// Tiles of keys and values in shared memory: those of 128 keys are under way together.
constexpr int forward_stages(int d) { return d <= 64 ? 4 : 2; }

template <int D>
constexpr std::size_t tensor_forward_shared() {
  return tensor_tile_bytes(D, tensor_rows + 2 * forward_stages(D) * tensor_columns);
}

// Softmax state of a lane's two rows. Scores are multiplied by log2(e), so that exponentials are powers of 2. `total`
// covers only the lane's own columns.
struct RowState {
  int begin[2], end[2];
  float largest[2] = {minus_infinity, minus_infinity}, total[2] = {0, 0};

  __device__ explicit RowState(const TensorRange& range) {
    for (int half = 0; half < 2; ++half) begin[half] = range.row_begin[half], end[half] = range.row_end[half];
  }
  __device__ bool empty(int half) const { return begin[half] >= end[half]; }

  // Turns the scores of keys from `first` on into weights relative to the running maximum. Returns the factor for
  // earlier weights.
  __device__ float weigh(float (&score)[column_blocks][4], int half, int first, int lane, float scale) {
    const int from = begin[half] - first - lane % 4 * 2, to = end[half] - first - lane % 4 * 2;
    float now = largest[half];
#pragma unroll
    for (int n = 0; n < column_blocks; ++n)
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        float& x = score[n][2 * half + j];
        x = from <= 8 * n + j && 8 * n + j < to ? x * scale : minus_infinity;
        now = fmaxf(now, x);
      }
    now = reduce_row_lanes(now, Larger{});
    const float base = now == minus_infinity ? 0.0f : now, kept = fast_exp2(largest[half] - base);
    largest[half] = now;
    total[half] *= kept;
#pragma unroll
    for (int n = 0; n < column_blocks; ++n)
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        float& x = score[n][2 * half + j];
        x = fast_exp2(x - base);
        total[half] += x;
      }
    return kept;
  }
};

template <int D>
__global__ void __launch_bounds__(tensor_threads, D <= 64 ? 4 : 2)
    tensor_forward(const AttentionForward __grid_constant__ a) {
  begin_kernel();
  __shared__ BlockDropout dropout;
  const AttentionShape& s = a.shape;
  const TensorPlace at;
  const int head_size = static_cast<int>(s.head_size);
  auto* const q = shared_memory<Bf16>();
  Bf16 *const tiles = q + tensor_rows * tensor_pitch(D), *const q_of_warp = at.of_warp<D>(q);
  fetch_rows<D, tensor_rows>(q, static_cast<const Bf16*>(a.q) + at.batch * s.queries * a.ldq + at.head * s.head_size,
                             a.ldq, at.first_row, s.queries, head_size);

  const TensorRange range(s, at);
  RowState rows(range);
  const float scale = static_cast<float>(s.scale) * log2_of_e;
  float sum[D / 8][4] = {};

  for_keys<D, forward_stages(D)>(a, at, range, tiles, dropout, [&](int first, const Bf16* k, const Bf16* v) {
    const KeptOfRows kept(dropout, at, first);
    float score[column_blocks][4] = {};
    add_dots<D>(score, q_of_warp, k);
    const float kept0 = rows.weigh(score, 0, first, at.lane, scale),
                kept1 = rows.weigh(score, 1, first, at.lane, scale);
    if (dropout.threshold) {
#pragma unroll
      for (int n = 0; n < column_blocks; ++n) {
        const unsigned word = kept.word(at.lane, n);
#pragma unroll
        for (int i = 0; i < 4; ++i) score[n][i] = kept.has(word, at.lane, i / 2, i % 2) ? score[n][i] : 0.0f;
      }
    }
#pragma unroll
    for (float(&x)[4] : sum) x[0] *= kept0, x[1] *= kept0, x[2] *= kept1, x[3] *= kept1;
    add_weighted<D>(sum, score, v);
  });

  float factor[2];
  for (int half = 0; half < 2; ++half) {
    const float total = reduce_row_lanes(rows.total[half], Add{});
    factor[half] = rows.empty(half) ? 0.0f : dropout.keep / total;
    if (a.lse && at.lane % 4 == 0 && at.row(half) < s.queries)
      static_cast<float*>(a.lse)[(at.batch * s.heads + at.head) * s.queries + at.row(half)] =
          (rows.largest[half] + log2f(total)) * ln_of_2;
  }
  if (!a.out) return;
  Bf16* const out =
      static_cast<Bf16*>(a.out) + (at.batch * s.queries + at.first_of_warp()) * a.ld_out + at.head * s.head_size;
  store_rows<D>(q_of_warp, sum, factor[0], factor[1], out, a.ld_out, s.queries - at.first_of_warp(), head_size);
}

inline bool takes_tensor_cores(const AttentionForward& a) {
  return fits_tensor_cores(a.shape) && rows_are_aligned<Bf16>(a.q, a.ldq) && rows_are_aligned<Bf16>(a.k, a.ldk) &&
         rows_are_aligned<Bf16>(a.v, a.ldv) && rows_are_aligned<Bf16>(a.out, a.ld_out);
}

}  // namespace comera::kernels::cuda
