// Muon. One block per matrix: the cores of a model are more than multiprocessors, and all of them stay in the L2
// cache. A dense weight of a large model would keep its block for long; products of the library are for it.
#include "kernels/cuda/common/batch.h"
#include "kernels/cuda/common/element.h"
#include "kernels/cuda/common/reduce.h"
#include "kernels/cuda/common/runtime.h"
#include "kernels/cuda/common/workspace.h"
#include "kernels/cuda/ops.h"
#include "kernels/muon.h"

namespace comera::kernels::cuda {
namespace {

constexpr int threads = 512;

struct Item {
  float *value, *momentum;
  const float* gradient;
  float *x, *next, *square, *factor;  // [longer, shorter] twice, [shorter, shorter] twice
  const AdamwScalars* scalars;
  int longer, shorter;
  float rate_scale;
  bool turned;
};

Item item_of(const MuonTensor& t, Parts& parts) {
  const MuonShape s = muon_shape(t.rows, t.columns);
  Item item{};
  item.value = static_cast<float*>(t.value), item.momentum = static_cast<float*>(t.momentum);
  item.gradient = static_cast<const float*>(t.gradient);
  item.scalars = t.scalars, item.rate_scale = t.rate_scale;
  item.longer = static_cast<int>(s.longer), item.shorter = static_cast<int>(s.shorter), item.turned = s.turned;
  item.x = parts.take<float>(s.longer * s.shorter), item.next = parts.take<float>(s.longer * s.shorter);
  item.square = parts.take<float>(s.shorter * s.shorter), item.factor = parts.take<float>(s.shorter * s.shorter);
  return item;
}

std::size_t workspace_bytes(const Context&, const Muon& a) {
  Parts parts;
  for (int i = 0; i < a.count; ++i) item_of(a.tensors[i], parts);
  return parts.bytes();
}

// Place in the value of element e of x.
COMERA_DEVICE int place(const Item& t, int e) { return t.turned ? e % t.shorter * t.longer + e / t.shorter : e; }

// New momentum, and x = U / |U|.
__device__ void begin(const Item& t, const MuonFactors& f) {
  const int count = t.longer * t.shorter;
  double sum = 0;
  for (int e = threadIdx.x; e < count; e += threads) {
    const int at = place(t, e);
    const float m = mixed(f, t.momentum[at], t.gradient[at]), u = mixed(f, m, t.gradient[at]);
    t.momentum[at] = m, t.x[e] = u;
    sum += static_cast<double>(u) * u;
  }
  const float inverse = muon_inverse(sum_of_block(sum));
  for (int e = threadIdx.x; e < count; e += threads) t.x[e] *= inverse;
  __syncthreads();
}

// store(i, j, the sum of left(k, i) right(k, j) over k < terms) for i < rows, j < columns. A thread has 4 x 4 sums, so
// that it loads 8 numbers for 16 products. If there are fewer tiles than threads, neighbours share the terms of one.
constexpr int side = 4;
template <class Left, class Right, class Store>
__device__ void multiply(int rows, int columns, int terms, const Left& left, const Right& right, const Store& store) {
  const int across = static_cast<int>(blocks_for(columns, side)),
            tiles = static_cast<int>(blocks_for(rows, side)) * across;
  int shares = 1;
  while (shares < warp_size && 2 * shares * tiles <= threads) shares *= 2;
  const int work = static_cast<int>(blocks_for(tiles * shares, warp_size)) * warp_size;  // whole warps exchange sums
  for (int at = threadIdx.x; at < work; at += threads) {
    const int tile = min(at / shares, tiles - 1), row = tile / across * side, column = tile % across * side;
    float sum[side][side] = {};
#pragma unroll 2
    for (int k = at % shares; k < terms; k += shares) {
      float l[side], r[side];
#pragma unroll
      for (int i = 0; i < side; ++i)
        l[i] = left(k, min(row + i, rows - 1)), r[i] = right(k, min(column + i, columns - 1));
#pragma unroll
      for (int i = 0; i < side; ++i)
#pragma unroll
        for (int j = 0; j < side; ++j) sum[i][j] = fmaf(l[i], r[j], sum[i][j]);
    }
#pragma unroll
    for (int i = 0; i < side; ++i)
#pragma unroll
      for (int j = 0; j < side; ++j) {
        for (int distance = 1; distance < shares; distance *= 2)
          sum[i][j] += __shfl_xor_sync(full_warp, sum[i][j], distance);
        if (at % shares == 0 && at / shares < tiles && row + i < rows && column + j < columns)
          store(row + i, column + j, sum[i][j]);
      }
  }
  __syncthreads();
}

// to = f(x^T x), f of an element and its place; x [longer, n]
template <class F>
__device__ void multiply_with_itself(const float* x, int longer, int n, float* to, const F& f) {
  const auto element = [&](int k, int i) { return x[k * n + i]; };
  multiply(n, n, longer, element, element, [&](int i, int j, float sum) { to[i * n + j] = f(i * n + j, sum); });
}

// next = x (x1 I + x3 S + x5 S^2), S = x^T x
__device__ void iterate(const Item& t, const float* x, float* next) {
  const MuonPolynomial p;
  const int n = t.shorter;
  multiply_with_itself(x, t.longer, n, t.square, [](int, float sum) { return sum; });
  multiply_with_itself(t.square, n, n, t.factor, [&](int at, float sum) {  // S is symmetric
    return fmaf(p.x5, sum, p.x3 * t.square[at]) + (at / n == at % n ? p.x1 : 0);
  });
  multiply(
      t.longer, n, n, [&](int k, int i) { return x[i * n + k]; }, [&](int k, int j) { return t.factor[k * n + j]; },
      [&](int i, int j, float sum) { next[i * n + j] = sum; });
}

__global__ void __launch_bounds__(threads)
    muon(const Items<Item> __grid_constant__ items, const StepScalars* scalars, double momentum) {
  begin_kernel();
  if (scalars->finite == 0) return;
  const Item& t = items.item[blockIdx.x];
  const MuonFactors f(*t.scalars, scalars->gradient_scale, momentum, t.rate_scale);
  begin(t, f);
  float *x = t.x, *next = t.next;
  for (int iteration = 0; iteration < muon_iterations; ++iteration) {
    iterate(t, x, next);
    float* const done = next;
    next = x, x = done;
  }
  const float size = muon_size(t.longer);
  for (int e = threadIdx.x; e < t.longer * t.shorter; e += threads) {
    const int at = place(t, e);
    t.value[at] = stepped(f, size, t.value[at], x[e]);
  }
}

Status run(const Context& context, const Muon& a) {
  if (context.workspace_bytes < workspace_bytes(context, a)) return Status::workspace_too_small;
  return with_element(context, [&](auto) {
    Parts parts(context.workspace);
    return launch_items(
        context, a.count, threads, muon, [&](int i) { return item_of(a.tensors[i], parts); }, a.scalars, a.momentum);
  });
}

}  // namespace

void bind(Op<Muon>& op) { op.run = run, op.workspace_bytes = workspace_bytes; }

}  // namespace comera::kernels::cuda
