// Norms. Bound by memory traffic: every kernel reads its rows once, keeps them in registers between statistics and
// result, and writes once. Rows that do not fit a block's registers, of 48 KiB and more, and rows without alignment are
// read again from the L2 cache.
#include "kernels/cuda/norm/norm_backward.h"
#include "kernels/cuda/ops.h"

namespace comera::kernels::cuda {
namespace {

COMERA_DEVICE float total(const Eight& x) {
  return ((x.v[0] + x.v[1]) + (x.v[2] + x.v[3])) + ((x.v[4] + x.v[5]) + (x.v[6] + x.v[7]));
}

// Rounds to the stored type, so that NormApply reads the same numbers.
template <class T>
COMERA_DEVICE void round_to(Eight& x) {
#pragma unroll
  for (int j = 0; j < 8; ++j) x.v[j] = to_float(to_element<T>(x.v[j]));
}

// Eight elements of y before dropout. NormForward and NormApply share this code, so they produce the same bits.
COMERA_DEVICE Eight norm_of(const Eight& s, float mean, float rstd, const Eight& gain, bool shifts,
                            const Eight& shift) {
  Eight y;
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    const float h = normalised(s.v[j], mean, rstd);
    y.v[j] = shifts ? fmaf(h, gain.v[j], shift.v[j]) : h * gain.v[j];
  }
  return y;
}
template <class T>
__device__ void write_norm(const Eight& s, float mean, float rstd, const float* gain, const float* shift,
                           const DropoutOfRow& dropout, std::int64_t at, std::int64_t columns, bool aligned, T* y) {
  Eight b = {};
  if (shift) b = get<Eight>(shift, at, columns, aligned);
  Eight result = norm_of(s, mean, rstd, get<Eight>(gain, at, columns, aligned), shift != nullptr, b);
  dropout.apply(at / 8, result.v);
  put(y, at, columns, aligned, result);
}

// s = residual + dropout(x) for eight elements; s holds x on entry.
template <class T>
COMERA_DEVICE void add_residual(const NormForward& a, const DropoutOfRow& dropout, std::int64_t at,
                                const Eight& residual, Eight& s) {
  dropout.apply(at / 8, s.v);
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

// A thread row of a block has one row.
template <class T, int eights>
__global__ void __launch_bounds__(threads_of<eights>)
    forward(const NormForward __grid_constant__ a, const RowDropout __grid_constant__ x_dropout,
            const RowDropout __grid_constant__ y_dropout) {
  begin_kernel();
  const std::int64_t row = first_row(), start = row * a.columns;
  const int end = row < a.tokens ? static_cast<int>(a.columns) : 0;
  StoredEight<T> x[eights], residual[eights];
  StoredEight<float> gain[eights], shift[eights];
  load_row(a.x, start, end, x);
  load_row(a.residual, start, a.residual ? end : 0, residual);
  const StepOfDropout step(x_dropout, y_dropout);
  const TokenOfDropout x_token(x_dropout, end > 0 ? row : 0), y_token(y_dropout, end > 0 ? row : 0);
  const auto load_gain = [&] { load_row(a.gain, 0, end, gain), load_row(a.shift, 0, a.shift ? end : 0, shift); };
  if (eights == 1) load_gain();

  const PhiloxKey key = step.key();
  const DropoutOfRow dropout(x_dropout, key, x_token), output_dropout(y_dropout, key, y_token);
  Eight s[eights];
  float sum[1] = {}, squares[1] = {};
#pragma unroll
  for (int c = 0; c < eights; ++c) {
    s[c] = x[c].floats();
    add_residual<T>(a, dropout, place(c), residual[c].floats(), s[c]);
    sum[0] += total(s[c]);
  }
  if (eights > 1) load_gain();  // the registers of x and residual are free
  if (writes_sum(a, dropout)) write_row<T>(a.sum, start, end, s);
  int buffer = 0;
  if (a.kind == NormKind::layer) sum_rows(sum, buffer);
  const float mean = a.kind == NormKind::layer ? sum[0] / static_cast<float>(a.columns) : 0.0f;
#pragma unroll
  for (int c = 0; c < eights; ++c)
    if (place(c) < end) squares[0] = add_squares(s[c], mean, 0, 8, squares[0]);
  sum_rows(squares, buffer);
  const float rstd = reciprocal_deviation(a, squares[0]);
  if (end > 0) write_statistics(a, row, mean, rstd);
#pragma unroll
  for (int c = 0; c < eights; ++c) {
    s[c] = norm_of(s[c], mean, rstd, gain[c].floats(), a.shift, shift[c].floats());
    output_dropout.apply(place(c) / 8, s[c].v);
  }
  write_row<T>(a.y, start, end, s);
}

// For rows that are wider than the registers or not aligned. A thread reads again only elements that it wrote itself.
template <class T>
__global__ void __launch_bounds__(row_threads)
    forward_wide(const NormForward __grid_constant__ a, const RowDropout __grid_constant__ x_dropout,
                 const RowDropout __grid_constant__ y_dropout, bool aligned) {
  begin_kernel();
  const PhiloxKey key = StepOfDropout(x_dropout, y_dropout).key();
  const void* sums = a.sum ? a.sum : a.x;
  for (std::int64_t row = first_row(); row < a.tokens; row += row_stride()) {
    const DropoutOfRow dropout(x_dropout, key, TokenOfDropout(x_dropout, row)),
        output_dropout(y_dropout, key, TokenOfDropout(y_dropout, row));
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
__global__ void __launch_bounds__(row_threads)
    apply(const NormApply __grid_constant__ a, const RowDropout __grid_constant__ output_dropout, bool aligned) {
  begin_kernel();
  const PhiloxKey key = StepOfDropout(output_dropout).key();
  for (std::int64_t row = first_row(); row < a.tokens; row += row_stride()) {
    const DropoutOfRow dropout(output_dropout, key, TokenOfDropout(output_dropout, row));
    const float mean = a.kind == NormKind::layer ? f32(a.mean)[row] : 0.0f, rstd = f32(a.rstd)[row];
    for (std::int64_t at = first_eight(); at < a.columns; at += eight_stride()) {
      const Eight s = get<Eight>(row_of<T>(a.sum, row, a.columns), at, a.columns, aligned);
      write_norm(s, mean, rstd, f32(a.gain), f32(a.shift), dropout, at, a.columns, aligned,
                 row_of<T>(a.y, row, a.columns));
    }
  }
}

Status run(const Context& context, const NormForward& a) {
  if (!a.sum && (a.residual || a.dropout.probability > 0)) return Status::unsupported_shape;
  const RowDropout x_dropout(a.dropout), y_dropout(a.output_dropout);
  return with_element(context, [&]<class T>(T) {
    const bool aligned = all_aligned<T>(a.columns, a.x, a.residual, a.sum, a.gain, a.shift, a.y);
    const dim3 block = forward_block(a.columns, a.tokens);
    return with_eights(a.columns, block.x, aligned, [&]<int eights>(std::integral_constant<int, eights>) {
      if constexpr (eights == 0) {
        return launch(context, row_launch(a.tokens, a.columns), forward_wide<T>, a, x_dropout, y_dropout, aligned);
      } else {
        return launch(context, {static_cast<unsigned>(blocks_for(a.tokens, block.y)), block}, forward<T, eights>, a,
                      x_dropout, y_dropout);
      }
    });
  });
}

Status run(const Context& context, const NormApply& a) {
  return with_element(context, [&]<class T>(T) {
    const bool aligned = all_aligned<T>(a.columns, a.sum, a.gain, a.shift, a.y);
    return launch(context, row_launch(a.tokens, a.columns), apply<T>, a, RowDropout(a.output_dropout), aligned);
  });
}

// A block for each processor of an H100, as far as others add 128 parts at once (group_sums.h).
constexpr std::int64_t most_backward_blocks = 128;

std::int64_t backward_blocks(const NormBackward& a) {
  return std::min(blocks_for(a.tokens, norm_block(a.columns, a.tokens).y), most_backward_blocks);
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
  const unsigned blocks = static_cast<unsigned>(backward_blocks(a));
  const dim3 block = norm_block(a.columns, a.tokens);
  const RowDropout x_dropout(a.dropout), y_dropout(a.output_dropout);
  const Status status = with_element(context, [&]<class T>(T) {
    const bool aligned = all_aligned<T>(a.columns, a.dy, a.sum, a.gain, a.d_sum_in, a.d_sum, a.dx, partial);
    return with_eights(a.columns, block.x, aligned, [&]<int eights>(std::integral_constant<int, eights>) {
      if constexpr (eights == 0) {
        return launch(context, {blocks, {block.x}}, backward_wide<T>, a, x_dropout, y_dropout, aligned, partial,
                      earlier_sums(context));
      } else {
        const std::size_t shared = block.y > 1 ? 2 * block.y * static_cast<std::size_t>(a.columns) * sizeof(float) : 0;
        return launch(context, {blocks, block, shared}, backward<T, eights>, a, x_dropout, y_dropout, partial,
                      earlier_sums(context));
      }
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
