// The vector of VeLoRA and the gradients along it.
#include "kernels/cuda/common/element.h"
#include "kernels/cuda/common/reduce.h"
#include "kernels/cuda/common/runtime.h"
#include "kernels/cuda/ops.h"
#include "kernels/direction.h"

namespace comera::kernels::cuda {
namespace {

constexpr unsigned threads = 256;
constexpr int block_threads = 1024;

// Sums in double of one block of columns. The threads of a column add every r-th row, and the first of them adds their
// sums. Returns the mean of the thread's column, for the first `width` threads.
template <class T>
__device__ double mean_of_columns(const DirectionAverage& a, std::int64_t base, int width, double* parts) {
  const int rows_at_once = block_threads / width, own = static_cast<int>(threadIdx.x) / width;
  const auto* x = static_cast<const T*>(a.x) + base + threadIdx.x % width;
  double sum = 0;
  if (own < rows_at_once)
    for (std::int64_t row = own; row < a.rows; row += rows_at_once) sum += to_float(x[row * a.size]);
  __syncthreads();  // the first threads may still read the parts of the previous columns
  parts[threadIdx.x] = sum;
  __syncthreads();
  if (static_cast<int>(threadIdx.x) >= width) return 0;
  for (int k = 1; k < rows_at_once; ++k) sum += parts[k * width + threadIdx.x];
  return sum / static_cast<double>(a.rows);
}

// One block: it computes once in a training, and returns after it has read v in all other steps. A thread writes v of
// the same columns in both loops.
template <class T>
__global__ void __launch_bounds__(block_threads) average(const DirectionAverage a) {
  begin_kernel();
  __shared__ double parts[block_threads];
  auto* v = static_cast<float*>(a.v);
  int is_set = 0;
  for (std::int64_t j = threadIdx.x; j < a.size; j += block_threads) is_set |= v[j] != 0 ? 1 : 0;
  if (reduce_block(is_set, 0, Larger{}) != 0) return;
  double squares = 0;
  for (std::int64_t base = 0; base < a.size; base += block_threads) {
    const int width = a.size - base < block_threads ? static_cast<int>(a.size - base) : block_threads;
    const double mean = mean_of_columns<T>(a, base, width, parts);
    if (static_cast<int>(threadIdx.x) < width) v[base + threadIdx.x] = static_cast<float>(mean);
    squares += mean * mean;
  }
  squares = sum_of_block(squares);
  const double factor = squares > 0 && squares - squares == 0 ? 1 / sqrt(squares) : 0;
  for (std::int64_t j = threadIdx.x; j < a.size; j += block_threads)
    v[j] = factor > 0 ? static_cast<float>(v[j] * factor) : 0.0f;
}

// Bound by memory traffic: 8 bytes read and written per number of the result.
__global__ void __launch_bounds__(threads) lift(const DirectionLift a) {
  begin_kernel();
  const auto* v = static_cast<const float*>(a.v);
  const auto* t = static_cast<const float*>(a.t);
  auto* result = static_cast<float*>(a.result);
  for (std::int64_t at = flat_index(); at < a.groups * a.size * a.out; at += flat_stride()) {
    const std::int64_t i = at / a.out, n = at % a.out;
    float& place = result[i * a.ld_result + n];
    place = fmaf(static_cast<float>(a.scale) * v[i % a.size], t[i / a.size * a.out + n], place);
  }
}

Status run(const Context& context, const DirectionAverage& a) {
  if (a.rows == 0 || a.size == 0) return Status::ok;
  return with_element(context, [&]<class T>(T) { return launch(context, {1, block_threads}, average<T>, a); });
}

Status run(const Context& context, const DirectionLift& a) {
  return with_element(context, [&](auto) {
    return launch(context, {grid_for(a.groups * a.size * a.out, threads), threads}, lift, a);
  });
}

}  // namespace

void bind(Op<DirectionAverage>& op) { op.run = run; }
void bind(Op<DirectionLift>& op) { op.run = run; }

}  // namespace comera::kernels::cuda
