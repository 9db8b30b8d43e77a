// The backward of norms. Rows are handled as in the forward (norm.cu).
#pragma once

#include "kernels/cuda/common/column_sums.h"
#include "kernels/cuda/norm/norm_rows.h"

namespace comera::kernels::cuda {

// g = dy gain, h = (s - mean) rstd for eight elements of a row.
struct GradientEight {
  Eight dy, g, h;

  COMERA_DEVICE GradientEight(const Eight& dy_after_dropout, const Eight& s, const Eight& gain, float mean, float rstd)
      : dy(dy_after_dropout) {
#pragma unroll
    for (int j = 0; j < 8; ++j) g.v[j] = dy.v[j] * gain.v[j], h.v[j] = normalised(s.v[j], mean, rstd);
  }
  // Adds dy h and dy to the thread's sums for gain and shift; adds g and g h to the row's sums.
  COMERA_DEVICE void add(Eight& d_gain, Eight& d_shift, float& g_sum, float& gh_sum) const {
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      d_gain.v[j] = fmaf(dy.v[j], h.v[j], d_gain.v[j]);
      d_shift.v[j] += dy.v[j];
      g_sum += g.v[j];
      gh_sum = fmaf(g.v[j], h.v[j], gh_sum);
    }
  }
};

COMERA_DEVICE bool writes_dx(const NormBackward& a, const DropoutOfRow& dropout) {
  return a.dx && (a.dx != a.d_sum || dropout.active());
}
// d holds the gradient that reaches s past the norm.
COMERA_DEVICE void add_gradient(const Eight& g, const Eight& h, float g_mean, float gh_mean, float rstd, Eight& d) {
#pragma unroll
  for (int j = 0; j < 8; ++j) d.v[j] = fmaf(rstd, fmaf(-h.v[j], gh_mean, g.v[j] - g_mean), d.v[j]);
}

// What a thread reads for a row.
template <class T, int eights>
struct GradientRow {
  StoredEight<T> dy[eights], s[eights], d_in[eights];
  float mean = 0, rstd = 0;
  TokenOfDropout x_token, y_token;
  std::int64_t start = 0;
  int end = 0;

  __device__ void load(const NormBackward& a, const RowDropout& x_dropout, const RowDropout& y_dropout,
                       std::int64_t row) {
    start = row * a.columns, end = row < a.tokens ? static_cast<int>(a.columns) : 0;
    load_row(a.dy, start, end, dy);
    load_row(a.sum, start, end, s);
    load_row(a.d_sum_in, start, a.d_sum_in ? end : 0, d_in);
    if (end == 0) return;
    mean = a.kind == NormKind::layer ? f32(a.mean)[row] : 0.0f, rstd = f32(a.rstd)[row];
    x_token = TokenOfDropout(x_dropout, row), y_token = TokenOfDropout(y_dropout, row);
  }
};

// Between the two passes over a row.
template <class T, int eights>
struct GradientOfRow {
  Eight g[eights], h[eights];
  StoredEight<T> d_in[eights];
  float rstd, sums[2] = {};  // of g and of g h
  std::int64_t start;
  int end;

  // Also adds to the thread's sums for gain and shift.
  __device__ GradientOfRow(const GradientRow<T, eights>& row, const DropoutOfRow& output_dropout,
                           const StoredEight<float> (&gain)[eights], Eight (&d_gain)[eights], Eight (&d_shift)[eights])
      : rstd(row.rstd), start(row.start), end(row.end) {
#pragma unroll
    for (int c = 0; c < eights; ++c) {
      Eight dy = row.dy[c].floats();
      output_dropout.apply(place(c) / 8, dy.v);
      const GradientEight own(dy, row.s[c].floats(), gain[c].floats(), row.mean, rstd);
      own.add(d_gain[c], d_shift[c], sums[0], sums[1]);
      g[c] = own.g, h[c] = own.h, d_in[c] = row.d_in[c];
    }
  }
  __device__ void write(const NormBackward& a, const DropoutOfRow& dropout) const {
    const float share = 1.0f / static_cast<float>(a.columns),
                g_mean = a.kind == NormKind::layer ? sums[0] * share : 0.0f;
    Eight d[eights];
#pragma unroll
    for (int c = 0; c < eights; ++c) {
      d[c] = d_in[c].floats();
      add_gradient(g[c], h[c], g_mean, sums[1] * share, rstd, d[c]);
    }
    write_row<T>(a.d_sum, start, end, d);
    if (!writes_dx(a, dropout)) return;
#pragma unroll
    for (int c = 0; c < eights; ++c) dropout.apply(place(c) / 8, d[c].v);
    write_row<T>(a.dx, start, end, d);
  }
};

// Writes the block's sums for gain and shift, [2, columns] of partial [blocks, 2, columns]. It adds the block's thread
// rows in order.
template <int eights>
__device__ void join_sums(int columns, const Eight (&d_gain)[eights], const Eight (&d_shift)[eights], float* partial) {
  float *to = partial + std::int64_t{2 * blockIdx.x} * columns, *shared = shared_memory<float>();
  const bool direct = blockDim.y == 1;
  float* own = direct ? to : shared + 2 * threadIdx.y * columns;
  write_row<float>(own, 0, columns, d_gain);
  write_row<float>(own, columns, columns, d_shift);
  if (direct) return;
  __syncthreads();
  for (int i = 4 * static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x); i < 2 * columns;
       i += 4 * static_cast<int>(blockDim.x * blockDim.y)) {
    Four sum = load_aligned<Four>(shared + i);
    for (unsigned y = 1; y < blockDim.y; ++y) {
      const Four next = load_aligned<Four>(shared + 2 * y * columns + i);
#pragma unroll
      for (int j = 0; j < 4; ++j) sum.v[j] += next.v[j];
    }
    store_aligned(sum, to + i);
  }
}

// The next row is loaded in the middle of one, when its registers are free.
template <class T, int eights>
__global__ void __launch_bounds__(threads_of<eights>)
    backward(const NormBackward __grid_constant__ a, const RowDropout __grid_constant__ x_dropout,
             const RowDropout __grid_constant__ y_dropout, float* partial,
             const GroupSums<> __grid_constant__ earlier) {
  begin_kernel();
  const StepOfDropout step(x_dropout, y_dropout);
  GradientRow<T, eights> next;
  StoredEight<float> gain[eights];
  next.load(a, x_dropout, y_dropout, first_row());
  load_row(a.gain, 0, static_cast<int>(a.columns), gain);
  add_sums(earlier);         // while the first row is on its way
  __shared__ PhiloxKey key;  // in registers the compiler would keep the keys of all ten rounds
  if (threadIdx.x + threadIdx.y == 0) key = step.key();
  __syncthreads();
  Eight d_gain[eights] = {}, d_shift[eights] = {};
  int buffer = 0;
  for (std::int64_t first = first_row() - threadIdx.y; first < a.tokens; first += row_stride()) {
    const DropoutOfRow dropout(x_dropout, key, next.x_token), output_dropout(y_dropout, key, next.y_token);
    GradientOfRow<T, eights> own(next, output_dropout, gain, d_gain, d_shift);
    if (eights <= 2) next.load(a, x_dropout, y_dropout, first + row_stride() + threadIdx.y);
    sum_rows(own.sums, buffer);
    own.write(a, dropout);
    if (eights > 2) next.load(a, x_dropout, y_dropout, first + row_stride() + threadIdx.y);
  }
  join_sums(static_cast<int>(a.columns), d_gain, d_shift, partial);
}

// For rows that are wider than the registers or not aligned. The block's sums for gain and shift are accumulated in its
// part of `partial`; a thread adds only to its own elements.
template <class T>
__global__ void __launch_bounds__(row_threads)
    backward_wide(const NormBackward __grid_constant__ a, const RowDropout __grid_constant__ x_dropout,
                  const RowDropout __grid_constant__ y_dropout, bool aligned, float* partial,
                  const GroupSums<> __grid_constant__ earlier) {
  begin_kernel();
  const PhiloxKey key = StepOfDropout(x_dropout, y_dropout).key();
  const float count = static_cast<float>(a.columns);
  float* const d_gain = partial + 2 * blockIdx.x * a.columns;
  const bool sums_aligned = a.columns % 4 == 0;
  for (std::int64_t row = first_row(); row < a.tokens; row += row_stride()) {
    const DropoutOfRow dropout(x_dropout, key, TokenOfDropout(x_dropout, row)),
        output_dropout(y_dropout, key, TokenOfDropout(y_dropout, row));
    const float mean = a.kind == NormKind::layer ? f32(a.mean)[row] : 0.0f, rstd = f32(a.rstd)[row];
    const auto read = [&](std::int64_t at) {
      // zero beyond the end of the row
      Eight dy = get<Eight>(row_of<T>(a.dy, row, a.columns), at, a.columns, aligned);
      output_dropout.apply(at / 8, dy.v);
      return GradientEight(dy, get<Eight>(row_of<T>(a.sum, row, a.columns), at, a.columns, aligned),
                           get<Eight>(f32(a.gain), at, a.columns, aligned), mean, rstd);
    };
    float g_sum = 0, gh_sum = 0;
    for (std::int64_t at = first_eight(); at < a.columns; at += eight_stride()) {
      Eight sums[2] = {};
      if (row >= row_stride())
        for (int i = 0; i < 2; ++i) sums[i] = get<Eight>(d_gain + i * a.columns, at, a.columns, sums_aligned);
      read(at).add(sums[0], sums[1], g_sum, gh_sum);
      for (int i = 0; i < 2; ++i) put(d_gain + i * a.columns, at, a.columns, sums_aligned, sums[i]);
    }
    const float g_mean = a.kind == NormKind::layer ? sum_of_row(g_sum) / count : 0.0f,
                gh_mean = sum_of_row(gh_sum) / count;
    for (std::int64_t at = first_eight(); at < a.columns; at += eight_stride()) {
      const GradientEight own = read(at);
      Eight d = {};
      if (a.d_sum_in) d = get<Eight>(row_of<T>(a.d_sum_in, row, a.columns), at, a.columns, aligned);
      add_gradient(own.g, own.h, g_mean, gh_mean, rstd, d);
      put(row_of<T>(a.d_sum, row, a.columns), at, a.columns, aligned, d);
      if (!writes_dx(a, dropout)) continue;
      dropout.apply(at / 8, d.v);
      put(row_of<T>(a.dx, row, a.columns), at, a.columns, aligned, d);
    }
  }
  add_sums(earlier);
}

}  // namespace comera::kernels::cuda
