// The input of a norm from its output.
#include "kernels/cuda/common/element.h"
#include "kernels/cuda/common/runtime.h"
#include "kernels/cuda/ops.h"
#include "kernels/norm_output.h"

namespace comera::kernels::cuda {
namespace {

constexpr unsigned threads = 256;
constexpr int block_threads = 512;

COMERA_DEVICE float key_of(const NormPick& a, std::int64_t column) {
  const float gain = fabsf(static_cast<const float*>(a.gain)[column]);
  if (!a.shift || gain == 0) return gain;
  return gain / (gain + fabsf(static_cast<const float*>(a.shift)[column]));
}

// One block. A column is picked if fewer than C others come before it. `keys` and `picked` have an entry per column.
__global__ void __launch_bounds__(block_threads) pick(const NormPick a, float* keys, int* picked) {
  begin_kernel();
  const std::int64_t count = picked_columns(a.columns);
  for (std::int64_t j = threadIdx.x; j < a.columns; j += block_threads) keys[j] = key_of(a, j);
  __syncthreads();
  for (std::int64_t j = threadIdx.x; j < a.columns; j += block_threads) {
    const float own = keys[j];
    std::int64_t before = 0;
    for (std::int64_t i = 0; i < a.columns; ++i) before += keys[i] < own || (keys[i] == own && i < j) ? 1 : 0;
    picked[j] = before < count ? 1 : 0;
  }
  __syncthreads();
  for (std::int64_t j = threadIdx.x; j < a.columns; j += block_threads) {
    std::int64_t at = 0;
    for (std::int64_t i = 0; i < j; ++i) at += picked[i];
    if (picked[j] && at < count) a.places[at] = static_cast<std::int32_t>(j);  // gains that are NaN may be too many
  }
}

template <class T>
__global__ void __launch_bounds__(threads) gather(const NormPick a) {
  begin_kernel();
  const std::int64_t count = picked_columns(a.columns);
  for (std::int64_t at = flat_index(); at < a.tokens * count; at += flat_stride())
    static_cast<T*>(a.values)[at] = static_cast<const T*>(a.sum)[at / count * a.columns + a.places[at % count]];
}

// Bound by memory traffic: 2 sizeof(T) bytes read and written per element.
template <class T>
__global__ void __launch_bounds__(threads) restore(const NormRestore a) {
  begin_kernel();
  const auto *gain = static_cast<const float*>(a.gain), *shift = static_cast<const float*>(a.shift);
  for (std::int64_t at = flat_index(); at < a.tokens * a.columns; at += flat_stride()) {
    const std::int64_t k = at / a.columns, j = at % a.columns;
    const float centred = to_float(static_cast<const T*>(a.y)[at]) - (shift ? shift[j] : 0.0f);
    const float mean = a.mean ? static_cast<const float*>(a.mean)[k] : 0.0f;
    static_cast<T*>(a.sum)[at] = to_element<T>(centred / (gain[j] * static_cast<const float*>(a.rstd)[k]) + mean);
  }
}

template <class T>
__global__ void __launch_bounds__(threads) scatter(const NormRestore a) {
  begin_kernel();
  const std::int64_t count = picked_columns(a.columns);
  for (std::int64_t at = flat_index(); at < a.tokens * count; at += flat_stride())
    static_cast<T*>(a.sum)[at / count * a.columns + a.places[at % count]] = static_cast<const T*>(a.values)[at];
}

std::size_t pick_workspace(const Context&, const NormPick& a) {
  return static_cast<std::size_t>(a.columns) * (sizeof(float) + sizeof(int));
}

Status run(const Context& context, const NormPick& a) {
  if (context.workspace_bytes < pick_workspace(context, a)) return Status::workspace_too_small;
  auto* keys = static_cast<float*>(context.workspace);
  return with_element(context, [&]<class T>(T) {
    const Status status = launch(context, {1, block_threads}, pick, a, keys, reinterpret_cast<int*>(keys + a.columns));
    if (status != Status::ok) return status;
    return launch(context, {grid_for(a.tokens * picked_columns(a.columns), threads), threads}, gather<T>, a);
  });
}

Status run(const Context& context, const NormRestore& a) {
  return with_element(context, [&]<class T>(T) {
    const Status status = launch(context, {grid_for(a.tokens * a.columns, threads), threads}, restore<T>, a);
    if (status != Status::ok) return status;
    return launch(context, {grid_for(a.tokens * picked_columns(a.columns), threads), threads}, scatter<T>, a);
  });
}

}  // namespace

void bind(Op<NormPick>& op) { op.run = run, op.workspace_bytes = pick_workspace; }
void bind(Op<NormRestore>& op) { op.run = run; }
void bind(Op<NormOutputBackward>&) {}

}  // namespace comera::kernels::cuda
