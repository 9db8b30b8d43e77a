// Attention in f32 on CUDA cores, for every head size up to 256. The limit is shared-memory reads: one read of 16
// bytes per 4 multiply-adds. Activations in bf16 use the tensor cores if head size and alignment allow it
// (attention_tensor.h). The backward computes probabilities twice, once per row of queries and once per row of keys,
// so that every sum has one owner and a fixed order; with few keys once (attention_tensor_short.h).
#include "kernels/cuda/attention/attention_tensor_forward.h"
#include "kernels/cuda/attention/attention_tensor_short.h"
#include "kernels/cuda/attention/attention_tile.h"
#include "kernels/cuda/ops.h"

namespace comera::kernels::cuda {
namespace {

// The work of a block: blockIdx.x is a tile of rows, blockIdx.y a head, blockIdx.z a sequence.
struct Place {
  std::int64_t batch = blockIdx.z, head = blockIdx.y, first_row;
  int warp = static_cast<int>(threadIdx.x) / warp_size, lane = static_cast<int>(threadIdx.x) % warp_size;
  __device__ explicit Place(int rows) : first_row(static_cast<std::int64_t>(blockIdx.x) * rows) {}
  __device__ std::int64_t row(int r) const { return first_row + warp * rows_per_warp + r; }
};

template <int D>
constexpr std::size_t forward_shared() {
  return sizeof(float) * (block_rows(D) * D + 2 * tile_columns * column_stride(D) + block_rows(D) * tile_columns);
}

// Loads the tiles of keys and values that the block's queries attend to, one after another. Calls use(first) when the
// tile that begins at key `first` is in k and v.
template <int D, class T, class Args, class Use>
__device__ void for_keys(const Args& a, const Place& at, float* k, float* v, const Use& use) {
  const AttentionShape& s = a.shape;
  const std::int64_t key_head = at.head / (s.heads / s.key_heads);
  const int head_size = static_cast<int>(s.head_size);
  const T* k_rows = static_cast<const T*>(a.k) + at.batch * s.keys * a.ldk + key_head * s.head_size;
  const T* v_rows = static_cast<const T*>(a.v) + at.batch * s.keys * a.ldv + key_head * s.head_size;
  const KeyRange visited = joined_ranges(s, at.batch, at.first_row, block_rows(D));
  for (std::int64_t first = visited.begin / tile_columns * tile_columns; first < visited.end; first += tile_columns) {
    __syncthreads();
    load_tile<D>(k, column_stride(D), k_rows, a.ldk, first, tile_columns, s.keys, head_size);
    load_tile<D>(v, column_stride(D), v_rows, a.ldv, first, tile_columns, s.keys, head_size);
    __syncthreads();
    use(first);
  }
}

template <int D, class T>
__global__ void __launch_bounds__(warps_for(D) * warp_size, 1) forward(const AttentionForward __grid_constant__ a) {
  begin_kernel();
  const AttentionShape& s = a.shape;
  const Place at(block_rows(D));
  const int head_size = static_cast<int>(s.head_size);
  auto* q = shared_memory<float>();
  float *k = q + block_rows(D) * D, *v = k + tile_columns * column_stride(D);
  float* weights = v + tile_columns * column_stride(D) + at.warp * rows_per_warp * tile_columns;
  const T* q_rows = static_cast<const T*>(a.q) + at.batch * s.queries * a.ldq + at.head * s.head_size;
  load_tile<D>(q, D, q_rows, a.ldq, at.first_row, block_rows(D), s.queries, head_size);

  DropoutRule rule(a.dropout);
  const std::int64_t sample = rule.threshold ? a.dropout.samples[at.batch] : 0;
  KeyRange range[rows_per_warp];
  float largest[rows_per_warp], total[rows_per_warp], sum[rows_per_warp][D / warp_size] = {};
  for (int r = 0; r < rows_per_warp; ++r)
    range[r] = range_of(s, at.batch, at.row(r)), largest[r] = minus_infinity, total[r] = 0;

  for_keys<D, T>(a, at, k, v, [&](std::int64_t first) {
    float score[rows_per_warp], factor[rows_per_warp];
    multiply_rows<D>(q + at.warp * rows_per_warp * D, k + at.lane * column_stride(D), score);
    dropout_factors(rule, sample, at.head, at.row(0), first, factor);
    for (int r = 0; r < rows_per_warp; ++r) {
      const std::int64_t key = first + at.lane;
      const float scaled = range[r].has(key)
                               ? score[r] * static_cast<float>(s.scale) + bias_of(s, at.head, at.row(r), key)
                               : minus_infinity;
      const float now = fmaxf(largest[r], reduce_warp(scaled, Larger{}));
      const float kept = now == minus_infinity ? 1.0f : expf(largest[r] - now);
      const float weight = scaled == minus_infinity ? 0.0f : expf(scaled - now);
      largest[r] = now;
      total[r] = total[r] * kept + weight;
      for (float& x : sum[r]) x *= kept;
      weights[r * tile_columns + at.lane] = weight * factor[r];
    }
    __syncwarp();
    add_columns<D>(weights, v, sum);
  });

  for (int r = 0; r < rows_per_warp; ++r) {
    const float all = sum_of_warp(total[r]);
    if (at.row(r) >= s.queries) continue;
    if (a.out) {
      T* row = static_cast<T*>(a.out) + (at.batch * s.queries + at.row(r)) * a.ld_out + at.head * s.head_size;
      store_row<D>(row, sum[r], all > 0 ? 1 / all : 0, head_size);
    }
    if (a.lse && at.lane == 0)
      static_cast<float*>(a.lse)[(at.batch * s.heads + at.head) * s.queries + at.row(r)] = largest[r] + logf(all);
  }
}

// delta[B, Hq, Tq], the layout of lse: the sum of dO * O over one query's head. One warp computes one entry.
template <class T>
__global__ void row_products(const AttentionBackward __grid_constant__ a, float* delta) {
  begin_kernel();
  const AttentionShape& s = a.shape;
  const std::int64_t row = flat_index() / warp_size;  // b, t, h
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  if (row >= s.batch * s.queries * s.heads) return;
  const std::int64_t token = row / s.heads, head = row % s.heads, at = token * a.ld_out + head * s.head_size;
  float sum = 0;
  for (std::int64_t i = lane; i < s.head_size; i += warp_size)
    sum += to_float(static_cast<const T*>(a.out)[at + i]) * to_float(static_cast<const T*>(a.d_out)[at + i]);
  sum = sum_of_warp(sum);
  if (lane == 0) delta[(token / s.queries * s.heads + head) * s.queries + token % s.queries] = sum;
}

template <int D>
constexpr std::size_t backward_shared() {
  return sizeof(float) *
         (2 * block_rows(D) * D + 2 * tile_columns * column_stride(D) + 2 * block_rows(D) * tile_columns);
}

template <int D, class T>
__global__ void __launch_bounds__(warps_for(D) * warp_size, 1)
    backward_queries(const AttentionBackward __grid_constant__ a, const float* deltas) {
  begin_kernel();
  const AttentionShape& s = a.shape;
  const Place at(block_rows(D));
  const std::int64_t stats = (at.batch * s.heads + at.head) * s.queries;
  const int head_size = static_cast<int>(s.head_size);
  auto* q = shared_memory<float>();
  float *d_out = q + block_rows(D) * D, *k = d_out + block_rows(D) * D, *v = k + tile_columns * column_stride(D);
  float* weights = v + tile_columns * column_stride(D) + at.warp * rows_per_warp * tile_columns;
  const std::int64_t q_at = at.batch * s.queries * a.ldq + at.head * s.head_size,
                     o_at = at.batch * s.queries * a.ld_out + at.head * s.head_size;
  load_tile<D>(q, D, static_cast<const T*>(a.q) + q_at, a.ldq, at.first_row, block_rows(D), s.queries, head_size);
  load_tile<D>(d_out, D, static_cast<const T*>(a.d_out) + o_at, a.ld_out, at.first_row, block_rows(D), s.queries,
               head_size);

  DropoutRule rule(a.dropout);
  const std::int64_t sample = rule.threshold ? a.dropout.samples[at.batch] : 0;
  KeyRange range[rows_per_warp];
  float lse[rows_per_warp], delta[rows_per_warp], sum[rows_per_warp][D / warp_size] = {};
  for (int r = 0; r < rows_per_warp; ++r) {
    range[r] = range_of(s, at.batch, at.row(r));
    const bool used = !range[r].empty();
    lse[r] = used ? static_cast<const float*>(a.lse)[stats + at.row(r)] : 0;
    delta[r] = used ? deltas[stats + at.row(r)] : 0;
  }
  for_keys<D, T>(a, at, k, v, [&](std::int64_t first) {
    float score[rows_per_warp], dp[rows_per_warp], factor[rows_per_warp];
    multiply_rows<D>(q + at.warp * rows_per_warp * D, k + at.lane * column_stride(D), score);
    multiply_rows<D>(d_out + at.warp * rows_per_warp * D, v + at.lane * column_stride(D), dp);
    dropout_factors(rule, sample, at.head, at.row(0), first, factor);
    for (int r = 0; r < rows_per_warp; ++r) {
      const std::int64_t key = first + at.lane;
      const float p = range[r].has(key)
                          ? expf(score[r] * static_cast<float>(s.scale) + bias_of(s, at.head, at.row(r), key) - lse[r])
                          : 0.0f;
      weights[r * tile_columns + at.lane] = p * (factor[r] * dp[r] - delta[r]);
    }
    __syncwarp();
    add_columns<D>(weights, k, sum);
  });
  for (int r = 0; r < rows_per_warp; ++r)
    if (at.row(r) < s.queries)
      store_row<D>(static_cast<T*>(a.dq) + q_at + at.row(r) * a.ldq, sum[r], static_cast<float>(s.scale), head_size);
}

// Rows are keys, columns are queries. blockIdx.y is a key head; the sums of its query heads are added in order.
template <int D, class T>
__global__ void __launch_bounds__(warps_for(D) * warp_size, 1)
    backward_keys(const AttentionBackward __grid_constant__ a, const float* deltas) {
  begin_kernel();
  const AttentionShape& s = a.shape;
  const Place at(block_rows(D));
  const std::int64_t group = s.heads / s.key_heads;
  const int head_size = static_cast<int>(s.head_size);
  auto* k = shared_memory<float>();
  float *v = k + block_rows(D) * D, *q = v + block_rows(D) * D, *d_out = q + tile_columns * column_stride(D);
  float* d_scores = d_out + tile_columns * column_stride(D) + 2 * at.warp * rows_per_warp * tile_columns;
  float* weights = d_scores + rows_per_warp * tile_columns;
  const std::int64_t k_at = at.batch * s.keys * a.ldk + at.head * s.head_size,
                     v_at = at.batch * s.keys * a.ldv + at.head * s.head_size;
  load_tile<D>(k, D, static_cast<const T*>(a.k) + k_at, a.ldk, at.first_row, block_rows(D), s.keys, head_size);
  load_tile<D>(v, D, static_cast<const T*>(a.v) + v_at, a.ldv, at.first_row, block_rows(D), s.keys, head_size);

  DropoutRule rule(a.dropout);
  const std::int64_t sample = rule.threshold ? a.dropout.samples[at.batch] : 0;
  float dk[rows_per_warp][D / warp_size] = {}, dv[rows_per_warp][D / warp_size] = {};
  for (std::int64_t head = at.head * group; head < (at.head + 1) * group; ++head)
    for (std::int64_t first = 0; first < s.queries; first += tile_columns) {
      const KeyRange range = range_of(s, at.batch, first + at.lane);
      const bool used = !range.empty() && range.begin < at.first_row + block_rows(D) && range.end > at.first_row;
      if (!__any_sync(full_warp, used)) continue;  // the same in every warp: all test the same queries
      __syncthreads();
      load_tile<D>(q, column_stride(D), static_cast<const T*>(a.q) + at.batch * s.queries * a.ldq + head * s.head_size,
                   a.ldq, first, tile_columns, s.queries, head_size);
      load_tile<D>(d_out, column_stride(D),
                   static_cast<const T*>(a.d_out) + at.batch * s.queries * a.ld_out + head * s.head_size, a.ld_out,
                   first, tile_columns, s.queries, head_size);
      __syncthreads();
      const std::int64_t stat = (at.batch * s.heads + head) * s.queries + first + at.lane;
      const float lse = used ? static_cast<const float*>(a.lse)[stat] : 0, delta = used ? deltas[stat] : 0;
      float score[rows_per_warp], dp[rows_per_warp];
      multiply_rows<D>(k + at.warp * rows_per_warp * D, q + at.lane * column_stride(D), score);
      multiply_rows<D>(v + at.warp * rows_per_warp * D, d_out + at.lane * column_stride(D), dp);
      const unsigned kept = rule.threshold ? kept_keys(rule, sample, first + at.lane, head, at.row(0)) : 0;
      for (int r = 0; r < rows_per_warp; ++r) {
        const float factor = rule.threshold == 0 ? 1.0f : kept >> r & 1u ? static_cast<float>(rule.scale) : 0.0f;
        const float p =
            used && range.has(at.row(r))
                ? expf(score[r] * static_cast<float>(s.scale) + bias_of(s, head, first + at.lane, at.row(r)) - lse)
                : 0.0f;
        d_scores[r * tile_columns + at.lane] = p * (factor * dp[r] - delta);
        weights[r * tile_columns + at.lane] = p * factor;
      }
      __syncwarp();
      add_columns<D>(d_scores, q, dk);
      add_columns<D>(weights, d_out, dv);
    }
  for (int r = 0; r < rows_per_warp; ++r) {
    if (at.row(r) >= s.keys) continue;
    store_row<D>(static_cast<T*>(a.dk) + k_at + at.row(r) * a.ldk, dk[r], static_cast<float>(s.scale), head_size);
    store_row<D>(static_cast<T*>(a.dv) + v_at + at.row(r) * a.ldv, dv[r], 1, head_size);
  }
}

// sums [Tq + Tk - 1, Hq]: of the gradients of all scores at a distance. One warp computes one entry, and the products
// q k and dO v once more, so that the sum has a fixed order.
template <class T>
__global__ void sum_distances(const AttentionBackward __grid_constant__ a, const float* deltas, float* sums) {
  begin_kernel();
  const AttentionShape& s = a.shape;
  const std::int64_t entry = flat_index() / warp_size, head = entry % s.heads,
                     key_head = head / (s.heads / s.key_heads);
  const std::int64_t ahead = entry / s.heads - (s.queries - 1);  // of the key before the query
  if (ahead >= s.keys) return;
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  DropoutRule rule(a.dropout);
  float total = 0;
  for (std::int64_t b = 0; b < s.batch; ++b)
    for (std::int64_t t = ahead < 0 ? -ahead : 0; t < s.queries && t + ahead < s.keys; ++t) {
      const std::int64_t key = t + ahead, stat = (b * s.heads + head) * s.queries + t;
      if (!range_of(s, b, t).has(key)) continue;
      const T *q = static_cast<const T*>(a.q) + (b * s.queries + t) * a.ldq + head * s.head_size,
              *d_out = static_cast<const T*>(a.d_out) + (b * s.queries + t) * a.ld_out + head * s.head_size,
              *k = static_cast<const T*>(a.k) + (b * s.keys + key) * a.ldk + key_head * s.head_size,
              *v = static_cast<const T*>(a.v) + (b * s.keys + key) * a.ldv + key_head * s.head_size;
      float score = 0, dp = 0;
      for (std::int64_t i = lane; i < s.head_size; i += warp_size) {
        score += to_float(q[i]) * to_float(k[i]);
        dp += to_float(d_out[i]) * to_float(v[i]);
      }
      score = sum_of_warp(score) * static_cast<float>(s.scale) + bias_of(s, head, t, key);
      const unsigned kept = rule.threshold ? kept_keys(rule, a.dropout.samples[b], t, head, key / 8 * 8) : 0;
      const float factor = rule.threshold == 0 ? 1.0f : kept >> key % 8 & 1u ? static_cast<float>(rule.scale) : 0.0f;
      total += expf(score - static_cast<const float*>(a.lse)[stat]) * (factor * sum_of_warp(dp) - deltas[stat]);
    }
  if (lane == 0) sums[entry] = total;
}

// Adds the sums of the distances that share a row of the bias to its gradient, in their order. A thread has one entry.
__global__ void bias_gradient(const AttentionBackward __grid_constant__ a, const float* sums) {
  begin_kernel();
  const AttentionShape& s = a.shape;
  const std::int64_t entry = flat_index(), head = entry % s.heads;
  if (entry >= s.bias_rows * s.heads) return;
  float total = 0;
  for (std::int64_t p = 0; p < s.distances(); ++p)
    if (s.bias_row[p] == entry / s.heads) total += sums[p * s.heads + head];
  static_cast<float*>(a.d_bias)[entry] += total;
}

template <int D>
struct HeadSize {
  static constexpr int value = D;
};

// Calls f with the smallest compiled head size that the head fits in.
template <class F>
Status with_head_size(std::int64_t head_size, F&& f) {
  if (head_size <= 32) return f(HeadSize<32>{});
  if (head_size <= 64) return f(HeadSize<64>{});
  if (head_size <= 128) return f(HeadSize<128>{});
  if (head_size <= 256) return f(HeadSize<256>{});
  return Status::unsupported_shape;
}

Launch tiles(std::int64_t rows, std::int64_t heads, std::int64_t batch, int d, std::size_t shared) {
  return {dim3(static_cast<unsigned>(blocks_for(rows, block_rows(d))), static_cast<unsigned>(heads),
               static_cast<unsigned>(batch)),
          static_cast<unsigned>(warps_for(d) * warp_size), shared};
}

// Tensor-core kernels: compiled for heads of up to 32, 64 and 128 elements; a block has tensor_rows rows.
Launch tensor_tiles(std::int64_t rows, std::int64_t heads, std::int64_t batch, std::size_t shared) {
  return {dim3(static_cast<unsigned>(blocks_for(rows, tensor_rows)), static_cast<unsigned>(heads),
               static_cast<unsigned>(batch)),
          tensor_threads, shared};
}
template <class F>
Status with_tensor_size(std::int64_t head_size, F&& f) {
  if (head_size <= 32) return f(HeadSize<32>{});
  if (head_size <= 64) return f(HeadSize<64>{});
  return f(HeadSize<128>{});
}

bool fits(const AttentionShape& s) { return s.batch <= 65535 && s.heads <= 65535; }

Status run(const Context& context, const AttentionForward& a) {
  const AttentionShape& s = a.shape;
  if (!fits(s)) return Status::unsupported_shape;
  if (context.dtype == DType::bf16 && takes_tensor_cores(a))
    return with_tensor_size(s.head_size, [&](auto size) {
      constexpr int d = decltype(size)::value;
      return launch(context, tensor_tiles(s.queries, s.heads, s.batch, tensor_forward_shared<d>()), tensor_forward<d>,
                    a);
    });
  return with_element(context, [&]<class T>(T) {
    return with_head_size(s.head_size, [&](auto size) {
      constexpr int d = decltype(size)::value;
      return launch(context, tiles(s.queries, s.heads, s.batch, d, forward_shared<d>()), forward<d, T>, a);
    });
  });
}

std::int64_t statistics(const AttentionShape& s) { return s.batch * s.heads * s.queries; }

// delta, the sums of distances for a bias, and lse if it is not given.
std::int64_t sums_of(const AttentionBackward& a) { return a.shape.biased() ? a.shape.distances() * a.shape.heads : 0; }
std::size_t backward_bytes(const Context&, const AttentionBackward& a) {
  return sizeof(float) * static_cast<std::size_t>((a.lse ? 1 : 2) * statistics(a.shape) + sums_of(a));
}

// V is read but not used.
AttentionForward lse_only(const AttentionBackward& a, float* lse) {
  AttentionForward only_lse;
  only_lse.shape = a.shape, only_lse.lse = lse;
  only_lse.q = a.q, only_lse.ldq = a.ldq, only_lse.k = a.k, only_lse.ldk = a.ldk, only_lse.v = a.v,
  only_lse.ldv = a.ldv;
  return only_lse;
}

// The workspace holds delta, and the sums behind it.
template <class T>
Status add_bias_gradient(const Context& context, const AttentionBackward& a, float* delta) {
  const AttentionShape& s = a.shape;
  constexpr unsigned threads = 256;
  float* sums = delta + statistics(s);
  const Launch distances{static_cast<unsigned>(blocks_for(sums_of(a), threads / warp_size)), threads};
  const Status status = launch(context, distances, sum_distances<T>, a, delta, sums);
  if (status != Status::ok) return status;
  const Launch entries{static_cast<unsigned>(blocks_for(s.bias_rows * s.heads, threads)), threads};
  return launch(context, entries, bias_gradient, a, sums);
}

Status run(const Context& context, const AttentionBackward& a) {
  const AttentionShape& s = a.shape;
  if (!fits(s)) return Status::unsupported_shape;
  if (context.workspace_bytes < backward_bytes(context, a)) return Status::workspace_too_small;
  auto* delta = static_cast<float*>(context.workspace);
  if (!a.lse) {
    AttentionBackward with_lse = a;
    float* lse = delta + statistics(s) + sums_of(a);
    with_lse.lse = lse;
    const Status status = run(context, lse_only(a, lse));
    return status == Status::ok ? run(context, with_lse) : status;
  }
  if (context.dtype == DType::bf16 && takes_tensor_cores(a))
    return with_tensor_size(s.head_size, [&](auto size) {
      constexpr int d = decltype(size)::value;
      if constexpr (d <= 64)
        if (is_short(s)) {
          const dim3 blocks(1, static_cast<unsigned>(s.heads), static_cast<unsigned>(s.batch));
          return launch(context, {blocks, short_threads, ShortTile<d>::bytes}, tensor_backward_short<d>, a);
        }
      const Launch queries = tensor_tiles(s.queries, s.heads, s.batch, tensor_backward_queries_shared<d>());
      const Status done = launch(context, queries, tensor_backward_queries<d>, a, delta);
      if (done != Status::ok) return done;
      return launch(context, tensor_tiles(s.keys, s.key_heads, s.batch, tensor_backward_keys_shared<d>()),
                    tensor_backward_keys<d>, a, delta);
    });
  return with_element(context, [&]<class T>(T) {
    constexpr unsigned threads = 256;
    const Launch rows{static_cast<unsigned>(blocks_for(s.batch * s.queries * s.heads, threads / warp_size)), threads};
    const Status status = launch(context, rows, row_products<T>, a, delta);
    if (status != Status::ok) return status;
    if (a.d_bias) {
      const Status done = add_bias_gradient<T>(context, a, delta);
      if (done != Status::ok) return done;
    }
    return with_head_size(s.head_size, [&](auto size) {
      constexpr int d = decltype(size)::value;
      const Launch queries = tiles(s.queries, s.heads, s.batch, d, backward_shared<d>());
      const Status done = launch(context, queries, backward_queries<d, T>, a, delta);
      if (done != Status::ok) return done;
      return launch(context, tiles(s.keys, s.key_heads, s.batch, d, backward_shared<d>()), backward_keys<d, T>, a,
                    delta);
    });
  });
}

}  // namespace

void bind(Op<AttentionForward>& op) { op.run = run; }
void bind(Op<AttentionBackward>& op) { op.run = run, op.workspace_bytes = backward_bytes; }
void bind(Op<CodedAttentionBackward>&) {}

}  // namespace comera::kernels::cuda
