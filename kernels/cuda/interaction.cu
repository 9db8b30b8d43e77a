// Dot products of feature vectors. A block holds the vectors of one example in shared memory, so each is read once;
// rows there have one word of padding against bank conflicts.
#include "kernels/cuda/common/element.h"
#include "kernels/cuda/ops.h"
#include "kernels/interaction.h"

namespace comera::kernels::cuda {
namespace {

constexpr unsigned pair_threads = 128;

COMERA_DEVICE int pairs_of(int vectors) { return vectors * (vectors - 1) / 2; }

// The pair (i, j), j < i, with pair_index(i, j) == pair.
struct Pair {
  int i, j;
};
COMERA_DEVICE Pair pair_at(int pair) {
  int i = static_cast<int>((1.0f + sqrtf(1.0f + 8.0f * static_cast<float>(pair))) / 2.0f);
  while (i * (i - 1) / 2 > pair) --i;
  while (i * (i + 1) / 2 <= pair) ++i;
  return {i, pair - i * (i - 1) / 2};
}

template <class T, class Args>
__device__ void load_vectors(const Args& a, std::int64_t b, float* vectors) {
  const int columns = static_cast<int>(a.columns), count = static_cast<int>(a.vectors) * columns;
  for (int at = static_cast<int>(threadIdx.x); at < count; at += pair_threads) {
    const int i = at / columns, k = at % columns;
    vectors[i * (columns + 1) + k] = to_float(static_cast<const T*>(a.x[i])[b * columns + k]);
  }
}

template <class T>
__global__ void __launch_bounds__(pair_threads) multiply_pairs(const InteractionForward __grid_constant__ a) {
  begin_kernel();
  float* const vectors = shared_memory<float>();
  const int columns = static_cast<int>(a.columns), pairs = pairs_of(static_cast<int>(a.vectors));
  for (std::int64_t b = blockIdx.x; b < a.rows; b += gridDim.x) {
    load_vectors<T>(a, b, vectors);
    __syncthreads();
    T* const y = static_cast<T*>(a.y) + b * (columns + pairs);
    for (int k = static_cast<int>(threadIdx.x); k < columns; k += pair_threads) y[k] = to_element<T>(vectors[k]);
    for (int pair = static_cast<int>(threadIdx.x); pair < pairs; pair += pair_threads) {
      const Pair p = pair_at(pair);
      float sum = 0;
      for (int k = 0; k < columns; ++k)
        sum = fmaf(vectors[p.i * (columns + 1) + k], vectors[p.j * (columns + 1) + k], sum);
      y[columns + pair] = to_element<T>(sum);
    }
    __syncthreads();  // the next example overwrites the vectors
  }
}

template <class T>
__global__ void __launch_bounds__(pair_threads) spread_pairs(const InteractionBackward __grid_constant__ a) {
  begin_kernel();
  float* const vectors = shared_memory<float>();
  const int columns = static_cast<int>(a.columns), count = static_cast<int>(a.vectors), pairs = pairs_of(count);
  float* const products = vectors + count * (columns + 1);
  for (std::int64_t b = blockIdx.x; b < a.rows; b += gridDim.x) {
    const T* const dy = static_cast<const T*>(a.dy) + b * (columns + pairs);
    load_vectors<T>(a, b, vectors);
    for (int pair = static_cast<int>(threadIdx.x); pair < pairs; pair += pair_threads)
      products[pair] = to_float(dy[columns + pair]);
    __syncthreads();
    for (int at = static_cast<int>(threadIdx.x); at < count * columns; at += pair_threads) {
      const int i = at / columns, k = at % columns;
      float sum = i == 0 ? to_float(dy[k]) : 0.0f;
      for (int j = 0; j < i; ++j) sum = fmaf(products[i * (i - 1) / 2 + j], vectors[j * (columns + 1) + k], sum);
      for (int j = i + 1; j < count; ++j)
        sum = fmaf(products[j * (j - 1) / 2 + i], vectors[j * (columns + 1) + k], sum);
      static_cast<T*>(a.dx[i])[b * columns + k] = to_element<T>(sum);
    }
    __syncthreads();
  }
}

template <class Args>
std::size_t shared_of(const Args& a, bool products) {
  const std::int64_t vectors = a.vectors * (a.columns + 1), pairs = products ? a.vectors * (a.vectors - 1) / 2 : 0;
  return static_cast<std::size_t>(vectors + pairs) * sizeof(float);
}

template <class Args>
bool fits(const Args& a, bool products) {
  return a.vectors >= 1 && a.vectors <= most_vectors && shared_of(a, products) <= shared_limit();
}

Status run(const Context& context, const InteractionForward& a) {
  if (!fits(a, false)) return Status::unsupported_shape;
  return with_element(context, [&]<class T>(T) {
    return launch(context, {grid_for(a.rows, 1), pair_threads, shared_of(a, false)}, multiply_pairs<T>, a);
  });
}

Status run(const Context& context, const InteractionBackward& a) {
  if (!fits(a, true)) return Status::unsupported_shape;
  return with_element(context, [&]<class T>(T) {
    return launch(context, {grid_for(a.rows, 1), pair_threads, shared_of(a, true)}, spread_pairs<T>, a);
  });
}

}  // namespace

void bind(Op<InteractionForward>& op) { op.run = run; }
void bind(Op<InteractionBackward>& op) { op.run = run; }

}  // namespace comera::kernels::cuda
