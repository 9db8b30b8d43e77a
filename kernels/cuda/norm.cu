// Norms. Bound by memory traffic: every kernel reads its rows once, keeps them in registers between statistics and
// result, and writes once. Rows that do not fit a block's registers, of 48 KiB and more, are read again from the L2
// cache.
#include "kernels/cuda/common/column_sums.h"
#include "kernels/cuda/common/dropout.h"
#include "kernels/cuda/common/rows.h"
#include "kernels/cuda/ops.h"
#include "kernels/norm.h"

namespace comera::kernels::cuda {
namespace {

template <class T>
__device__ const T* row_of(const void* data, std::int64_t row, std::int64_t columns) {
  return static_cast<const T*>(data) + row * columns;
}
template <class T>
__device__ T* row_of(void* data, std::int64_t row, std::int64_t columns) {
  return static_cast<T*>(data) + row * columns;
}
inline __device__ const float* f32(const void* data) { return static_cast<const float*>(data); }

// Column of the thread's c-th group of eight.
inline __device__ std::int64_t place(int c) { return first_eight() + c * eight_stride(); }

// Issues all reads of a thread before the first result is used. Writes follow the reads, because the compiler cannot
// prove that they do not overlap.
template <class T, int eights>
__device__ void read_row(const void* data, std::int64_t row, std::int64_t columns, bool aligned, Eight (&x)[eights]) {
#pragma unroll
  for (int c = 0; c < eights; ++c) x[c] = get<Eight>(row_of<T>(data, row, columns), place(c), columns, aligned);
}
template <class T, int eights>
__device__ void write_row(void* data, std::int64_t row, std::int64_t columns, bool aligned, const Eight (&x)[eights]) {
#pragma unroll
  for (int c = 0; c < eights; ++c) put(row_of<T>(data, row, columns), place(c), columns, aligned, x[c]);
}

COMERA_DEVICE void drop(const DropoutOfRow& dropout, std::int64_t at, Eight& x) {
  if (!dropout.active()) return;
  Eight factors;
  dropout.eight(at / 8, factors.v);
#pragma unroll
  for (int j = 0; j < 8; ++j) x.v[j] *= factors.v[j];
}

COMERA_DEVICE float total(const Eight& x) {
  return ((x.v[0] + x.v[1]) + (x.v[2] + x.v[3])) + ((x.v[4] + x.v[5]) + (x.v[6] + x.v[7]));
}

// Rounds to the stored type, so that NormApply reads the same numbers.
template <class T>
COMERA_DEVICE void round_to(Eight& x) {
#pragma unroll
  for (int j = 0; j < 8; ++j) x.v[j] = to_float(to_element<T>(x.v[j]));
}

COMERA_DEVICE float normalised(float s, float mean, float rstd) { return (s - mean) * rstd; }

// Writes eight elements of y. NormForward and NormApply share this code, so they produce the same bits.
template <class T>
__device__ void write_norm(const Eight& s, float mean, float rstd, const float* gain, const float* shift,
                           const DropoutOfRow& dropout, std::int64_t at, std::int64_t columns, bool aligned, T* y) {
  const Eight g = get<Eight>(gain, at, columns, aligned);
  Eight result;
  if (shift) {
    const Eight b = get<Eight>(shift, at, columns, aligned);
#pragma unroll
    for (int j = 0; j < 8; ++j) result.v[j] = fmaf(normalised(s.v[j], mean, rstd), g.v[j], b.v[j]);
  } else {
#pragma unroll
    for (int j = 0; j < 8; ++j) result.v[j] = normalised(s.v[j], mean, rstd) * g.v[j];
  }
  drop(dropout, at, result);
  put(y, at, columns, aligned, result);
}

// s = residual + dropout(x) for eight elements; s holds x on entry.
template <class T>
COMERA_DEVICE void add_residual(const NormForward& a, const DropoutOfRow& dropout, std::int64_t at,
                                const Eight& residual, Eight& s) {
  drop(dropout, at, s);
  if (a.residual) {
#pragma unroll
    for (int j = 0; j < 8; ++j) s.v[j] += residual.v[j];
  }
  round_to<T>(s);
}

COMERA_DEVICE bool writes_sum(const NormForward& a, const DropoutOfRow& dropout) {
  return a.sum && (a.sum != a.x || a.residual || dropout.active());
}

COMERA_DEVICE float reciprocal_deviation(const NormForward& a, float squares) {
  return 1.0f / sqrtf(squares / static_cast<float>(a.columns) + static_cast<float>(a.epsilon));
}

// Sums squares around the mean, so the variance has no cancellation.
COMERA_DEVICE float add_squares(const Eight& s, float mean, std::int64_t at, std::int64_t columns, float squares) {
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    const float centred = at + j < columns ? s.v[j] - mean : 0.0f;
    squares = fmaf(centred, centred, squares);
  }
  return squares;
}

__device__ inline void write_statistics(const NormForward& a, std::int64_t row, float mean, float rstd) {
  if (threadIdx.x != 0) return;
  if (a.mean) static_cast<float*>(a.mean)[row] = mean;
  static_cast<float*>(a.rstd)[row] = rstd;
}

// Computes the sum of a row; writes it to a.sum if required.
template <class T, int eights>
__device__ void read_sum(const NormForward& a, std::int64_t row, bool aligned, Eight (&s)[eights]) {
  Eight residual[eights] = {};
  read_row<T>(a.x, row, a.columns, aligned, s);
  if (a.residual) read_row<T>(a.residual, row, a.columns, aligned, residual);
  const DropoutOfRow dropout(a.dropout, row);
#pragma unroll
  for (int c = 0; c < eights; ++c) add_residual<T>(a, dropout, place(c), residual[c], s[c]);
  if (writes_sum(a, dropout)) write_row<T>(a.sum, row, a.columns, aligned, s);
}

template <class T, int eights>
__global__ void __launch_bounds__(row_threads) forward(const NormForward __grid_constant__ a, bool aligned) {
  begin_kernel();
  for (std::int64_t row = first_row(); row < a.tokens; row += row_stride()) {
    Eight s[eights];
    read_sum<T>(a, row, aligned, s);
    float sum = 0, squares = 0;
#pragma unroll
    for (int c = 0; c < eights; ++c) sum += total(s[c]);
    const float mean = a.kind == NormKind::layer ? sum_of_row(sum) / static_cast<float>(a.columns) : 0.0f;
#pragma unroll
    for (int c = 0; c < eights; ++c) squares = add_squares(s[c], mean, place(c), a.columns, squares);
    const float rstd = reciprocal_deviation(a, sum_of_row(squares));
    write_statistics(a, row, mean, rstd);
    const DropoutOfRow output_dropout(a.output_dropout, row);
#pragma unroll
    for (int c = 0; c < eights; ++c)
      write_norm(s[c], mean, rstd, f32(a.gain), f32(a.shift), output_dropout, place(c), a.columns, aligned,
                 row_of<T>(a.y, row, a.columns));
  }
}

// For rows wider than the registers. A thread reads again only elements that it wrote itself.
template <class T>
__global__ void __launch_bounds__(row_threads) forward_wide(const NormForward __grid_constant__ a, bool aligned) {
  begin_kernel();
  const void* sums = a.sum ? a.sum : a.x;
  for (std::int64_t row = first_row(); row < a.tokens; row += row_stride()) {
    const DropoutOfRow dropout(a.dropout, row), output_dropout(a.output_dropout, row);
    float sum = 0, squares = 0;
    for (std::int64_t at = first_eight(); at < a.columns; at += eight_stride()) {
      Eight residual = {}, s = get<Eight>(row_of<T>(a.x, row, a.columns), at, a.columns, aligned);
      if (a.residual) residual = get<Eight>(row_of<T>(a.residual, row, a.columns), at, a.columns, aligned);
      add_residual<T>(a, dropout, at, residual, s);
      if (writes_sum(a, dropout)) put(row_of<T>(a.sum, row, a.columns), at, a.columns, aligned, s);
      sum += total(s);
    }
    const T* const s_row = row_of<T>(sums, row, a.columns);
    const float mean = a.kind == NormKind::layer ? sum_of_row(sum) / static_cast<float>(a.columns) : 0.0f;
    for (std::int64_t at = first_eight(); at < a.columns; at += eight_stride())
      squares = add_squares(get<Eight>(s_row, at, a.columns, aligned), mean, at, a.columns, squares);
    const float rstd = reciprocal_deviation(a, sum_of_row(squares));
    write_statistics(a, row, mean, rstd);
    for (std::int64_t at = first_eight(); at < a.columns; at += eight_stride())
      write_norm(get<Eight>(s_row, at, a.columns, aligned), mean, rstd, f32(a.gain), f32(a.shift), output_dropout, at,
                 a.columns, aligned, row_of<T>(a.y, row, a.columns));
  }
}

template <class T>
__global__ void __launch_bounds__(row_threads) apply(const NormApply __grid_constant__ a, bool aligned) {
  begin_kernel();
  const DropoutRule rule(a.output_dropout);
  for (std::int64_t row = first_row(); row < a.tokens; row += row_stride()) {
    const DropoutOfRow dropout(rule, a.output_dropout, row);
    const float mean = a.kind == NormKind::layer ? f32(a.mean)[row] : 0.0f, rstd = f32(a.rstd)[row];
    for (std::int64_t at = first_eight(); at < a.columns; at += eight_stride()) {
      const Eight s = get<Eight>(row_of<T>(a.sum, row, a.columns), at, a.columns, aligned);
      write_norm(s, mean, rstd, f32(a.gain), f32(a.shift), dropout, at, a.columns, aligned,
                 row_of<T>(a.y, row, a.columns));
    }
  }
}

// g = dy gain, h = (s - mean) rstd for eight elements of a row.
struct GradientEight {
  Eight dy, g, h;

  template <class T>
  __device__ void read(const NormBackward& a, const DropoutOfRow& output_dropout, std::int64_t row, std::int64_t at,
                       bool aligned, float mean, float rstd) {
    dy = get<Eight>(row_of<T>(a.dy, row, a.columns), at, a.columns, aligned);  // zero beyond the end of the row
    const Eight s = get<Eight>(row_of<T>(a.sum, row, a.columns), at, a.columns, aligned);
    const Eight gain = get<Eight>(f32(a.gain), at, a.columns, aligned);
    drop(output_dropout, at, dy);
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

template <class T>
__device__ void write_gradient(const NormBackward& a, const DropoutOfRow& dropout, std::int64_t row, std::int64_t at,
                               bool aligned, float rstd, const Eight& g, const Eight& h, float g_mean, float gh_mean) {
  Eight d;
  if (a.d_sum_in) d = get<Eight>(row_of<T>(a.d_sum_in, row, a.columns), at, a.columns, aligned);
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    const float own = fmaf(-h.v[j], gh_mean, g.v[j] - g_mean);
    d.v[j] = a.d_sum_in ? fmaf(rstd, own, d.v[j]) : rstd * own;
  }
  put(row_of<T>(a.d_sum, row, a.columns), at, a.columns, aligned, d);
  if (!a.dx || (a.dx == a.d_sum && !dropout.active())) return;
  drop(dropout, at, d);
  put(row_of<T>(a.dx, row, a.columns), at, a.columns, aligned, d);
}

// g and h of a row in registers, and the means of g and g h.
template <int eights>
struct GradientRow {
  Eight g[eights], h[eights];
  float g_mean = 0, gh_mean = 0;

  // Also adds to the thread's sums for gain and shift.
  template <class T>
  __device__ void read(const NormBackward& a, const DropoutOfRow& output_dropout, std::int64_t row, bool aligned,
                       Eight* d_gain, Eight* d_shift) {
    const float mean = a.kind == NormKind::layer ? f32(a.mean)[row] : 0.0f, rstd = f32(a.rstd)[row];
    float g_sum = 0, gh_sum = 0;
#pragma unroll
    for (int c = 0; c < eights; ++c) {
      GradientEight own;
      own.template read<T>(a, output_dropout, row, place(c), aligned, mean, rstd);
      own.add(d_gain[c], d_shift[c], g_sum, gh_sum);
      g[c] = own.g, h[c] = own.h;
    }
    const float count = static_cast<float>(a.columns);
    if (a.kind == NormKind::layer) g_mean = sum_of_row(g_sum) / count;
    gh_mean = sum_of_row(gh_sum) / count;
  }

  template <class T>
  __device__ void write(const NormBackward& a, const DropoutOfRow& dropout, std::int64_t row, bool aligned) const {
    const float rstd = f32(a.rstd)[row];
#pragma unroll
    for (int c = 0; c < eights; ++c)
      write_gradient<T>(a, dropout, row, place(c), aligned, rstd, g[c], h[c], g_mean, gh_mean);
  }
};

// Writes the block's sums for gain and shift, [2, columns] of partial [blocks, 2, columns]. It adds the block's thread
// rows in order.
template <int eights>
__device__ void join_sums(std::int64_t columns, const Eight* d_gain, const Eight* d_shift, float* partial) {
  float *to = partial + 2 * blockIdx.x * columns, *shared = shared_memory<float>();
  const bool direct = blockDim.y == 1, aligned = columns % 4 == 0;
  float* own = direct ? to : shared + 2 * threadIdx.y * columns;
#pragma unroll
  for (int c = 0; c < eights; ++c) {
    put(own, place(c), columns, aligned, d_gain[c]);
    put(own + columns, place(c), columns, aligned, d_shift[c]);
  }
  if (direct) return;
  __syncthreads();
  for (unsigned i = threadIdx.y * blockDim.x + threadIdx.x; i < 2 * columns; i += blockDim.x * blockDim.y) {
    float sum = 0;
    for (unsigned y = 0; y < blockDim.y; ++y) sum += shared[2 * y * columns + i];
    to[i] = sum;
  }
}

// nvcc 13.0 would spill registers of two eights for the sake of a second block.
template <class T, int eights>
__global__ void __launch_bounds__(row_threads, eights == 2 ? 1 : 0)
    backward(const NormBackward __grid_constant__ a, bool aligned, float* partial,
             const GroupSums<> __grid_constant__ earlier) {
  begin_kernel();
  const DropoutRule rule(a.dropout), output_rule(a.output_dropout);
  Eight d_gain[eights] = {}, d_shift[eights] = {};
  for (std::int64_t row = first_row(); row < a.tokens; row += row_stride()) {
    const DropoutOfRow dropout(rule, a.dropout, row), output_dropout(output_rule, a.output_dropout, row);
    GradientRow<eights> gradient;
    gradient.template read<T>(a, output_dropout, row, aligned, d_gain, d_shift);
    gradient.template write<T>(a, dropout, row, aligned);
  }
  join_sums<eights>(a.columns, d_gain, d_shift, partial);
  add_sums(earlier);  // at the end: before the rows it would cost them registers
}

// For rows wider than the registers. The block's sums for gain and shift are accumulated in its part of `partial`; a
// thread adds only to its own elements.
template <class T>
__global__ void __launch_bounds__(row_threads)
    backward_wide(const NormBackward __grid_constant__ a, bool aligned, float* partial,
                  const GroupSums<> __grid_constant__ earlier) {
  begin_kernel();
  const DropoutRule rule(a.dropout), output_rule(a.output_dropout);
  const float count = static_cast<float>(a.columns);
  float* const d_gain = partial + 2 * blockIdx.x * a.columns;
  const bool sums_aligned = a.columns % 4 == 0;
  for (std::int64_t row = first_row(); row < a.tokens; row += row_stride()) {
    const DropoutOfRow dropout(rule, a.dropout, row), output_dropout(output_rule, a.output_dropout, row);
    const float mean = a.kind == NormKind::layer ? f32(a.mean)[row] : 0.0f, rstd = f32(a.rstd)[row];
    float g_sum = 0, gh_sum = 0;
    for (std::int64_t at = first_eight(); at < a.columns; at += eight_stride()) {
      Eight sums[2] = {};
      if (row >= row_stride())
        for (int i = 0; i < 2; ++i) sums[i] = get<Eight>(d_gain + i * a.columns, at, a.columns, sums_aligned);
      GradientEight own;
      own.read<T>(a, output_dropout, row, at, aligned, mean, rstd);
      own.add(sums[0], sums[1], g_sum, gh_sum);
      for (int i = 0; i < 2; ++i) put(d_gain + i * a.columns, at, a.columns, sums_aligned, sums[i]);
    }
    const float g_mean = a.kind == NormKind::layer ? sum_of_row(g_sum) / count : 0.0f,
                gh_mean = sum_of_row(gh_sum) / count;
    for (std::int64_t at = first_eight(); at < a.columns; at += eight_stride()) {
      GradientEight own;
      own.read<T>(a, output_dropout, row, at, aligned, mean, rstd);
      write_gradient<T>(a, dropout, row, at, aligned, rstd, own.g, own.h, g_mean, gh_mean);
    }
  }
  add_sums(earlier);
}

// Calls f with the number of eights per thread as a type; 0 for rows of more than 32 * row_threads columns.
template <class F>
Status with_eights(std::int64_t columns, F&& f) {
  switch (blocks_for(columns, 8 * static_cast<std::int64_t>(row_block(columns).x))) {
    case 0:
    case 1: return f(std::integral_constant<int, 1>{});
    case 2: return f(std::integral_constant<int, 2>{});
    case 3: return f(std::integral_constant<int, 3>{});
    case 4: return f(std::integral_constant<int, 4>{});
    default: return f(std::integral_constant<int, 0>{});
  }
}

template <class T, int eights>
constexpr auto forward_of() {
  if constexpr (eights == 0)
    return forward_wide<T>;
  else
    return forward<T, eights>;
}
template <class T, int eights>
constexpr auto backward_of() {
  if constexpr (eights == 0)
    return backward_wide<T>;
  else
    return backward<T, eights>;
}

Status run(const Context& context, const NormForward& a) {
  if (!a.sum && (a.residual || a.dropout.probability > 0)) return Status::unsupported_shape;
  return with_element(context, [&]<class T>(T) {
    const bool aligned = all_aligned<T>(a.columns, a.x, a.residual, a.sum, a.gain, a.shift, a.y);
    return with_eights(a.columns, [&]<int eights>(std::integral_constant<int, eights>) {
      return launch(context, row_launch(a.tokens, a.columns), forward_of<T, eights>(), a, aligned);
    });
  });
}

Status run(const Context& context, const NormApply& a) {
  return with_element(context, [&]<class T>(T) {
    const bool aligned = all_aligned<T>(a.columns, a.sum, a.gain, a.shift, a.y);
    return launch(context, row_launch(a.tokens, a.columns), apply<T>, a, aligned);
  });
}

std::int64_t backward_blocks(const NormBackward& a) {
  const std::int64_t blocks = blocks_for(a.tokens, row_block(a.columns).y);
  return blocks < partial_blocks ? blocks : partial_blocks;
}

std::size_t bytes_of_partial(const NormBackward& a) {
  return static_cast<std::size_t>(2 * backward_blocks(a) * a.columns) * sizeof(float);
}
std::size_t backward_workspace(const Context& context, const NormBackward& a) {
  return context.late_parts ? 0 : bytes_of_partial(a);
}

LateSums sums_of_blocks(const NormBackward& a, const void* partial) {
  LateSums sums = column_sums(backward_blocks(a), a.columns, partial, a.d_gain, a.d_shift);
  sums.bytes = bytes_of_partial(a);
  return sums;
}
LateSums late(const Context&, const NormBackward& a, void* parts) {
  const LateSums sums = sums_of_blocks(a, parts);
  return a.tokens > 0 && are_aligned(sums) ? sums : LateSums();
}

Status run(const Context& context, const NormBackward& a) {
  if (context.workspace_bytes < backward_workspace(context, a)) return Status::workspace_too_small;
  auto* partial = static_cast<float*>(context.late_parts ? context.late_parts : context.workspace);
  const std::int64_t blocks = backward_blocks(a);
  const dim3 block = row_block(a.columns);
  const std::size_t shared = block.y > 1 ? 2 * block.y * static_cast<std::size_t>(a.columns) * sizeof(float) : 0;
  const Status status = with_element(context, [&]<class T>(T) {
    const bool aligned = all_aligned<T>(a.columns, a.dy, a.sum, a.gain, a.d_sum_in, a.d_sum, a.dx);
    return with_eights(a.columns, [&]<int eights>(std::integral_constant<int, eights>) {
      return launch(context, {static_cast<unsigned>(blocks), block, shared}, backward_of<T, eights>(), a, aligned,
                    partial, earlier_sums(context));
    });
  });
  if (status != Status::ok || context.late_parts) return status;
  return launch_sums(context, sums_of_blocks(a, partial));
}

}  // namespace

void bind(Op<NormForward>& op) { op.run = run; }
void bind(Op<NormApply>& op) { op.run = run; }
void bind(Op<NormBackward>& op) { op.run = run, op.workspace_bytes = backward_workspace, op.late = late; }

}  // namespace comera::kernels::cuda
