// Cross entropy over chunks of the vocabulary. Bound by memory traffic: the logits are read once from memory (the sum
// of exponentials reads them again from the cache) and the backward writes them once.
#include "kernels/cross_entropy.h"
#include "kernels/cuda/common/row_sums.h"
#include "kernels/cuda/common/rows.h"
#include "kernels/cuda/ops.h"

namespace comera::kernels::cuda {
namespace {

// A key that is greater for a greater number and, among equal numbers, for the lower index. A NaN is below all
// numbers; 0 stands for no element and is below all keys.
COMERA_DEVICE std::uint64_t order_key(float x, std::uint32_t index) {
  const std::uint32_t bits = bits_of(x + 0.0f);  // -0 becomes 0
  const std::uint32_t rising = x != x ? 0u : bits >> 31 ? ~bits : bits | 0x80000000u;
  return static_cast<std::uint64_t>(rising) << 32 | (0xFFFFFFFFu - index);
}
COMERA_DEVICE float number_of_key(std::uint64_t key) {
  const auto rising = static_cast<std::uint32_t>(key >> 32);
  return float_of(rising >> 31 ? rising & 0x7FFFFFFFu : ~rising);
}
COMERA_DEVICE std::uint32_t index_of_key(std::uint64_t key) { return 0xFFFFFFFFu - static_cast<std::uint32_t>(key); }

// The key of the row's greatest logit at its lowest index. Every thread of the row gets it.
template <class T>
__device__ std::uint64_t greatest(const T* x, std::int64_t columns, bool aligned) {
  std::uint64_t key = 0;
  for (std::int64_t at = first_eight(); at < columns; at += eight_stride()) {
    const Eight logits = get<Eight>(x, at, columns, aligned);
    float best = logits.v[0];
    int place = 0;
#pragma unroll
    for (int j = 1; j < 8; ++j)
      if (at + j < columns && logits.v[j] > best) best = logits.v[j], place = j;
    key = Larger{}(key, order_key(best, static_cast<std::uint32_t>(at + place)));
  }
  return reduce_row(key, std::uint64_t{0}, Larger{});
}

template <class T>
__device__ float sum_of_exponentials(const T* x, std::int64_t columns, bool aligned, float maximum) {
  float sum = 0;
  for (std::int64_t at = first_eight(); at < columns; at += eight_stride()) {
    const Eight logits = get<Eight>(x, at, columns, aligned);
#pragma unroll
    for (int j = 0; j < 8; ++j) sum += at + j < columns ? expf(logits.v[j] - maximum) : 0.0f;
  }
  return sum_of_row(sum);
}

template <class T>
__global__ void __launch_bounds__(row_threads) fold_chunk(const CrossEntropyChunk __grid_constant__ a, bool aligned) {
  begin_kernel();
  auto *maximum = static_cast<float*>(a.maximum), *sum = static_cast<float*>(a.sum);
  for (std::int64_t row = first_row(); row < a.rows; row += row_stride()) {
    const T* x = static_cast<const T*>(a.logits) + row * a.ld;
    const float before = a.start ? 0.0f : maximum[row], sum_before = a.start ? 0.0f : sum[row];
    const std::uint64_t key = greatest(x, a.columns, aligned);
    const float largest = number_of_key(key);
    const bool rises = a.start || largest > before;
    const float m = rises ? largest : before;
    const float own = sum_of_exponentials(x, a.columns, aligned, m);
    __syncwarp();  // all threads have read the values that the first one overwrites
    if (threadIdx.x != 0) continue;
    sum[row] = own + (a.start ? 0.0f : rises ? sum_before * expf(before - m) : sum_before);
    if (rises) {
      maximum[row] = m;
      a.best[row] = static_cast<std::int32_t>(a.first + index_of_key(key));
    }
    const std::int64_t target = a.targets[row] - a.first;
    if (a.targets[row] >= 0 && target >= 0 && target < a.columns)
      static_cast<float*>(a.target_logit)[row] = to_float(x[target]);
  }
}

Status run(const Context& context, const CrossEntropyChunk& a) {
  if (a.columns < 1) return Status::unsupported_shape;
  return with_element(context, [&]<class T>(T) {
    return launch(context, row_launch(a.rows, a.columns), fold_chunk<T>, a, all_aligned<T>(a.ld, a.logits));
  });
}

struct LossOfRow {
  CrossEntropyLoss a;

  COMERA_DEVICE void add(std::int64_t row, Sums& sums) const {
    if (a.targets[row] < 0) return;
    const double maximum = static_cast<const float*>(a.maximum)[row], sum = static_cast<const float*>(a.sum)[row];
    sums.loss += log(sum) + (maximum - static_cast<const float*>(a.target_logit)[row]);
    sums.correct += a.best[row] == a.targets[row] ? 1 : 0;
  }
  COMERA_DEVICE void finish(const Sums& sums) const {
    *static_cast<double*>(a.loss) += sums.loss * *a.loss_scale;
    if (a.correct) *a.correct += sums.correct;
  }
};

std::size_t loss_workspace(const Context&, const CrossEntropyLoss& a) { return row_sums_workspace(a.rows); }

Status run(const Context& context, const CrossEntropyLoss& a) {
  return with_element(context, [&](auto) { return sum_rows(context, a.rows, LossOfRow{a}); });
}

template <class T>
__global__ void __launch_bounds__(row_threads) backward(const CrossEntropyBackward __grid_constant__ a, bool aligned) {
  begin_kernel();
  const auto scale = static_cast<float>(*a.loss_scale);
  for (std::int64_t row = first_row(); row < a.rows; row += row_stride()) {
    T* x = static_cast<T*>(a.logits) + row * a.ld;
    const bool counted = a.targets[row] >= 0;
    const std::int64_t target = a.targets[row] - a.first;
    const float m = static_cast<const float*>(a.maximum)[row], inverse = 1.0f / static_cast<const float*>(a.sum)[row];
    for (std::int64_t at = first_eight(); at < a.columns; at += eight_stride()) {
      Eight g{};
      if (counted) {
        g = get<Eight>(x, at, a.columns, aligned);
#pragma unroll
        for (int j = 0; j < 8; ++j) g.v[j] = (expf(g.v[j] - m) * inverse - (at + j == target ? 1.0f : 0.0f)) * scale;
      }
      put(x, at, a.columns, aligned, g);
    }
  }
}

Status run(const Context& context, const CrossEntropyBackward& a) {
  return with_element(context, [&]<class T>(T) {
    return launch(context, row_launch(a.rows, a.columns), backward<T>, a, all_aligned<T>(a.ld, a.logits));
  });
}

}  // namespace

void bind(Op<CrossEntropyChunk>& op) { op.run = run; }
void bind(Op<CrossEntropyLoss>& op) { op.run = run, op.workspace_bytes = loss_workspace; }
void bind(Op<CrossEntropyBackward>& op) { op.run = run; }

}  // namespace comera::kernels::cuda
