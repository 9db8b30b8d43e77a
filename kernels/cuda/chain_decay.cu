// Decay of the norm of products of cores. One block per chain goes through its cores in order: the parts are small, and
// all of them stay in the L2 cache. Chains of a model are fewer than multiprocessors, and one step in eight decays, so
// a chain is not split. A low-rank pair of a long table takes its block longer than any tensor train.
#include "kernels/chain_decay.h"
#include "kernels/cuda/chains/chain.h"
#include "kernels/cuda/common/batch.h"
#include "kernels/cuda/common/element.h"
#include "kernels/cuda/common/reduce.h"
#include "kernels/cuda/common/runtime.h"
#include "kernels/cuda/common/workspace.h"
#include "kernels/cuda/ops.h"

namespace comera::kernels::cuda {
namespace {

constexpr int threads = 1024;            // the loads of as many warps as possible hide the latency of the L2 cache
constexpr std::int64_t most_sizes = 64;  // of a block of a core

struct Item {
  float* values[max_cores];
  const float* diagonals[max_cores];  // of the bond after each core
  float *left[max_cores], *right[max_cores];
  float* product;  // of a block of a core
  const AdamwScalars* scalars;
  int sizes[max_cores], ranks[max_cores + 1];
  int cores;
};

Item item_of(const DecayingChain& c, Parts& parts) {
  Item item{};
  item.cores = c.cores, item.scalars = c.scalars;
  std::int64_t block = 0;
  for (int k = 0; k < c.cores; ++k) {
    item.values[k] = static_cast<float*>(c.values[k]);
    item.diagonals[k] = k + 1 < c.cores ? static_cast<const float*>(c.diagonals[k]) : nullptr;
    item.sizes[k] = static_cast<int>(c.sizes[k]);
    item.left[k] = parts.take<float>(c.ranks[k] * c.ranks[k]);
    item.right[k] = parts.take<float>(c.ranks[k + 1] * c.ranks[k + 1]);
    const std::int64_t sizes = c.sizes[k] < most_sizes ? c.sizes[k] : most_sizes;
    const std::int64_t elements = c.ranks[k] * sizes * c.ranks[k + 1];
    if (elements > block) block = elements;
  }
  for (int k = 0; k <= c.cores; ++k) item.ranks[k] = static_cast<int>(c.ranks[k]);
  item.product = parts.take<float>(block);
  return item;
}

std::size_t workspace_bytes(const Context&, const ChainDecay& a) {
  Parts parts;
  for (int i = 0; i < a.count; ++i) item_of(a.chains[i], parts);
  return parts.bytes();
}

// A block of a core: `rows` matrices [sizes, columns], `ld` apart.
struct Block {
  float* values;
  int rows, sizes, columns;
  std::int64_t ld;
  COMERA_DEVICE std::int64_t elements() const { return static_cast<std::int64_t>(rows) * sizes * columns; }
  COMERA_DEVICE float* row(int i) const { return values + i * ld; }
};

template <class Body>
__device__ void for_blocks(const Item& c, int k, const Body& body) {
  const int columns = c.ranks[k + 1];
  for (int first = 0; first < c.sizes[k]; first += most_sizes) {
    const int sizes = c.sizes[k] - first < most_sizes ? c.sizes[k] - first : static_cast<int>(most_sizes);
    body(Block{c.values[k] + static_cast<std::int64_t>(first) * columns, c.ranks[k], sizes, columns,
               static_cast<std::int64_t>(c.sizes[k]) * columns});
    __syncthreads();
  }
}

// Calls body(row, place in the row, element of a contiguous block) for the elements of a thread.
template <class Body>
__device__ void for_elements(const Block& b, const Body& body) {
  const int width = b.sizes * b.columns;
  for (std::int64_t e = threadIdx.x; e < b.elements(); e += threads)
    body(static_cast<int>(e / width), static_cast<int>(e % width), e);
}

// product = L block
__device__ void from_left(const Block& b, const float* left, float* product) {
  for_elements(b, [&](int i, int at, std::int64_t e) {
    float sum = 0;
#pragma unroll 4
    for (int a = 0; a < b.rows; ++a) sum = fmaf(left[i * b.rows + a], b.row(a)[at], sum);
    product[e] = sum;
  });
  __syncthreads();
}

// product = block R
__device__ void from_right(const Block& b, const float* right, float* product) {
  for_elements(b, [&](int i, int at, std::int64_t e) {
    const int column = at % b.columns;
    const float* x = b.row(i) + at - column;
    float sum = 0;
#pragma unroll 4
    for (int j = 0; j < b.columns; ++j) sum = fmaf(x[j], right[j * b.columns + column], sum);
    product[e] = sum;
  });
  __syncthreads();
}

COMERA_DEVICE float masked_entry(const float* diagonal, int j, double threshold) {
  return diagonal ? masked(diagonal[j], threshold) : 1.0f;
}

__device__ void clear(float* gram, int rank) {
  for (int e = threadIdx.x; e < rank * rank; e += threads) gram[e] = 0;
  __syncthreads();
}

__device__ void mask(const float* diagonal, double threshold, int rank, float* gram) {
  for (int e = threadIdx.x; e < rank * rank; e += threads)
    gram[e] *= masked_entry(diagonal, e / rank, threshold) * masked_entry(diagonal, e % rank, threshold);
  __syncthreads();
}

// L of core k + 1: the sum of G_i^T (L G)_i over the rows i.
__device__ void next_left(const Item& c, int k, double threshold) {
  float* next = c.left[k + 1];
  const int rank = c.ranks[k + 1];
  clear(next, rank);
  for_blocks(c, k, [&](const Block& b) {
    from_left(b, c.left[k], c.product);
    for (int e = threadIdx.x; e < rank * rank; e += threads) {
      float sum = next[e];
      for (int i = 0; i < b.rows; ++i)
#pragma unroll 4
        for (int s = 0; s < b.sizes; ++s)
          sum = fmaf(b.row(i)[s * rank + e / rank], c.product[(i * b.sizes + s) * rank + e % rank], sum);
      next[e] = sum;
    }
  });
  mask(c.diagonals[k], threshold, rank, next);
}

// R of core k - 1: (G R) G^T.
__device__ void next_right(const Item& c, int k, double threshold) {
  float* next = c.right[k - 1];
  const int rank = c.ranks[k];
  clear(next, rank);
  for_blocks(c, k, [&](const Block& b) {
    from_right(b, c.right[k], c.product);
    const int width = b.sizes * b.columns;
    for (int e = threadIdx.x; e < rank * rank; e += threads) {
      const float *x = c.product + static_cast<std::int64_t>(e / rank) * width, *y = b.row(e % rank);
      float sum = next[e];
#pragma unroll 4
      for (int j = 0; j < width; ++j) sum = fmaf(x[j], y[j], sum);
      next[e] = sum;
    }
  });
  mask(c.diagonals[k - 1], threshold, rank, next);
}

__device__ double mean_of_active(const Item& c, int bond, double threshold, const float* gram) {
  const float* diagonal = bond == 0 ? nullptr : c.diagonals[bond - 1];
  double sum = 0, active = 0;
  for (int j = threadIdx.x; j < c.ranks[bond]; j += threads)
    sum += gram[j * c.ranks[bond] + j], active += masked_entry(diagonal, j, threshold) > 0;
  sum = sum_of_block(sum), active = sum_of_block(active);
  return active > 0 ? sum / active : 0;
}

__device__ double norm_of(int rank, const float* gram) {
  double sum = 0;
  for (int e = threadIdx.x; e < rank * rank; e += threads) sum += static_cast<double>(gram[e]) * gram[e];
  return sqrt(sum_of_block(sum));
}

// G -= factor L G R
__device__ void shrink(const Item& c, int k, float factor) {
  for_blocks(c, k, [&](const Block& b) {
    from_right(b, c.right[k], c.product);
    for_elements(b, [&](int i, int at, std::int64_t) {
      float sum = 0;
      const int width = b.sizes * b.columns;
#pragma unroll 4
      for (int a = 0; a < b.rows; ++a)
        sum = fmaf(c.left[k][i * b.rows + a], c.product[static_cast<std::int64_t>(a) * width + at], sum);
      b.row(i)[at] = fmaf(-factor, sum, b.row(i)[at]);
    });
  });
}

__global__ void __launch_bounds__(threads)
    decay_chains(const Items<Item> __grid_constant__ items, const ChainDecay __grid_constant__ a) {
  begin_kernel();
  const Item& c = items.item[blockIdx.x];
  __shared__ double factors[max_cores];  // of each core; below 0: a bond is empty
  const double share = share_of(a, c.scalars->learning_rate) / c.cores, threshold = a.threshold;
  if (share == 0) return;
  if (threadIdx.x == 0) c.left[0][0] = c.right[c.cores - 1][0] = 1;
  __syncthreads();
  for (int k = 0; k + 1 < c.cores; ++k) next_left(c, k, threshold);
  for (int k = c.cores - 1; k > 0; --k) next_right(c, k, threshold);
  bool empty = false;
  for (int k = 0; k < c.cores; ++k) {
    const double left = mean_of_active(c, k, threshold, c.left[k]),
                 means = left * mean_of_active(c, k + 1, threshold, c.right[k]),
                 norms = norm_of(c.ranks[k], c.left[k]) * norm_of(c.ranks[k + 1], c.right[k]);
    if (threadIdx.x == 0) factors[k] = means == 0 ? -1 : factor_of(share, means, norms);
  }
  __syncthreads();
  for (int k = 0; k < c.cores; ++k) empty = empty || factors[k] < 0;
  if (empty) return;
  for (int k = 0; k < c.cores; ++k) shrink(c, k, static_cast<float>(factors[k]));
}

Status run(const Context& context, const ChainDecay& a) {
  if (context.workspace_bytes < workspace_bytes(context, a)) return Status::workspace_too_small;
  return with_element(context, [&](auto) {
    Parts parts(context.workspace);
    return launch_items(
        context, a.count, threads, decay_chains, [&](int i) { return item_of(a.chains[i], parts); }, a);
  });
}

}  // namespace

void bind(Op<ChainDecay>& op) { op.run = run, op.workspace_bytes = workspace_bytes; }

}  // namespace comera::kernels::cuda
