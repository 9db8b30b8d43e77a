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

// square = x^T x
__device__ void multiply_with_itself(const Item& t, const float* x) {
  const int n = t.shorter;
  for (int e = threadIdx.x; e < n * n; e += threads) {
    const float *left = x + e / n, *right = x + e % n;
    float sum = 0;
#pragma unroll 4
    for (int i = 0; i < t.longer; ++i) sum = fmaf(left[i * n], right[i * n], sum);
    t.square[e] = sum;
  }
  __syncthreads();
}

// factor = x1 I + x3 S + x5 S^2. S is symmetric, so its rows are its columns.
__device__ void polynomial(const Item& t) {
  const MuonPolynomial p;
  const int n = t.shorter;
  for (int e = threadIdx.x; e < n * n; e += threads) {
    const float *left = t.square + e / n, *right = t.square + e % n;
    float sum = 0;
#pragma unroll 4
    for (int i = 0; i < n; ++i) sum = fmaf(left[i * n], right[i * n], sum);
    t.factor[e] = fmaf(p.x5, sum, p.x3 * t.square[e]) + (e / n == e % n ? p.x1 : 0);
  }
  __syncthreads();
}

__device__ void multiply(const Item& t, const float* x, float* next) {
  const int n = t.shorter;
  for (int e = threadIdx.x; e < t.longer * n; e += threads) {
    const float *row = x + e / n * n, *column = t.factor + e % n;
    float sum = 0;
#pragma unroll 4
    for (int i = 0; i < n; ++i) sum = fmaf(row[i], column[i * n], sum);
    next[e] = sum;
  }
  __syncthreads();
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
    multiply_with_itself(t, x);
    polynomial(t);
    multiply(t, x, next);
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
