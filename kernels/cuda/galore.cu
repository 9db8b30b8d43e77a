// The subspace of GaLore. A step without a new basis launches the same kernels, which then end at once, so that a
// recorded step can be replayed.
#include "kernels/cuda/common/element.h"
#include "kernels/cuda/common/reduce.h"
#include "kernels/cuda/common/runtime.h"
#include "kernels/cuda/common/workspace.h"
#include "kernels/cuda/ops.h"
#include "kernels/galore.h"

namespace comera::kernels::cuda {
namespace {

constexpr int threads = 256, block_threads = 512, tile = 16;

struct Buffers {
  Parts parts_of_workspace;
  float *q, *z, *turned, *parts;
  double *matrix, *eigenvectors;
  Rotation* rotations;

  Buffers(void* memory, const GaloreBasis& a) : parts_of_workspace(memory) {
    const std::int64_t width = a.width();
    q = parts_of_workspace.take<float>(width * a.small()), z = parts_of_workspace.take<float>(width * a.large());
    turned = parts_of_workspace.take<float>(width * width), parts = parts_of_workspace.take<float>(width);
    matrix = parts_of_workspace.take<double>(width * width);
    eigenvectors = parts_of_workspace.take<double>(width * width);
    rotations = parts_of_workspace.take<Rotation>(pairs_of(width));
  }
};

std::size_t workspace_bytes(const Context&, const GaloreBasis& a) {
  return Buffers(nullptr, a).parts_of_workspace.bytes();
}

__global__ void __launch_bounds__(threads) draw_start(const GaloreBasis a, float* q) {
  begin_kernel();
  if (!a.due()) return;
  const SketchRule rule = rule_of(a);
  for (std::int64_t i = flat_index(); i < a.width() * a.small(); i += flat_stride())
    q[i] = start_entry(rule, i / a.small(), i % a.small());
}

// c [m, n] = x [m, k] y, where y is [k, n] or, transposed, [n, k].
template <class Sum>
struct Small {
  std::int64_t m, n, k;
  const float *x, *y;
  std::int64_t ld_y;
  bool transposed;
  Sum* c;
};

// A block computes a square tile of c. It copies tiles of both factors to shared memory.
template <class Sum>
__global__ void __launch_bounds__(tile* tile) multiply(const GaloreBasis a, const Small<Sum> p) {
  begin_kernel();
  __shared__ float x[tile][tile + 1], y[tile][tile + 1];
  if (!a.due()) return;
  const int column = threadIdx.x % tile, row = threadIdx.x / tile;
  const std::int64_t across = blocks_for(p.n, tile), tiles = across * blocks_for(p.m, tile);
  for (std::int64_t at = blockIdx.x; at < tiles; at += gridDim.x) {
    const std::int64_t first_row = at / across * tile, first_column = at % across * tile;
    Sum sum = 0;
    for (std::int64_t k = 0; k < p.k; k += tile) {
      const bool has_x = first_row + row < p.m && k + column < p.k;
      x[row][column] = has_x ? p.x[(first_row + row) * p.k + k + column] : 0.0f;
      if (p.transposed) {
        const bool has_y = first_column + row < p.n && k + column < p.k;
        y[column][row] = has_y ? p.y[(first_column + row) * p.ld_y + k + column] : 0.0f;
      } else {
        const bool has_y = first_column + column < p.n && k + row < p.k;
        y[row][column] = has_y ? p.y[(k + row) * p.ld_y + first_column + column] : 0.0f;
      }
      __syncthreads();
      for (int i = 0; i < tile; ++i) sum = fma(static_cast<Sum>(x[row][i]), static_cast<Sum>(y[i][column]), sum);
      __syncthreads();
    }
    if (first_row + row < p.m && first_column + column < p.n)
      p.c[(first_row + row) * p.n + first_column + column] = sum;
  }
}

template <class Sum>
Status multiply(const Context& context, const GaloreBasis& a, const Small<Sum>& p) {
  return launch(context, {grid_for(blocks_for(p.m, tile) * blocks_for(p.n, tile), 1), tile * tile}, multiply<Sum>, a,
                p);
}

struct Rows {
  float* data;
  std::int64_t count, size;
  COMERA_DEVICE float* operator[](std::int64_t i) const { return data + i * size; }
};

__device__ float norm_of(const float* x, std::int64_t size) {
  float sum = 0;
  for (std::int64_t i = threadIdx.x; i < size; i += blockDim.x) sum = fmaf(x[i], x[i], sum);
  return sqrtf(sum_of_block(sum));
}

// Takes the parts along the rows before `at` from it, twice. Returns the part of its norm that is left.
__device__ float take_parts(const Rows& rows, std::int64_t at, float* parts) {
  float* x = rows[at];
  const int lane = threadIdx.x % warp_size, warp = threadIdx.x / warp_size, warps = blockDim.x / warp_size;
  const float before = norm_of(x, rows.size);
  for (int pass = 0; pass < 2; ++pass) {
    __syncthreads();
    for (std::int64_t j = warp; j < at; j += warps) {
      float sum = 0;
      for (std::int64_t i = lane; i < rows.size; i += warp_size) sum = fmaf(rows[j][i], x[i], sum);
      sum = sum_of_warp(sum);
      if (lane == 0) parts[j] = sum;
    }
    __syncthreads();
    for (std::int64_t i = threadIdx.x; i < rows.size; i += blockDim.x) {
      float value = x[i];
      for (std::int64_t j = 0; j < at; ++j) value = fmaf(-parts[j], rows[j][i], value);
      x[i] = value;
    }
  }
  __syncthreads();
  return before > 0 ? norm_of(x, rows.size) / before : 0.0f;
}

// One block, because each row depends on all before it.
__global__ void __launch_bounds__(block_threads) orthonormalise(const GaloreBasis a, const Rows rows, float* parts) {
  begin_kernel();
  if (!a.due()) return;
  const SketchRule rule = rule_of(a);
  for (std::int64_t at = 0; at < rows.count; ++at) {
    float* x = rows[at];
    if (take_parts(rows, at, parts) < static_cast<float>(dependent)) {
      __syncthreads();
      for (std::int64_t i = threadIdx.x; i < rows.size; i += blockDim.x) x[i] = start_entry(rule, rows.count + at, i);
      __syncthreads();
      take_parts(rows, at, parts);
    }
    const float factor = 1 / norm_of(x, rows.size);
    __syncthreads();
    for (std::int64_t i = threadIdx.x; i < rows.size; i += blockDim.x) x[i] *= factor;
    __syncthreads();
  }
}

__device__ void turn(const Buffers& buffers, std::int64_t size) {
  const std::int64_t pairs = pairs_of(size), work = pairs * size;
  for (std::int64_t i = threadIdx.x; i < work; i += blockDim.x) {
    const Rotation r = buffers.rotations[i / size];
    const std::int64_t first = r.first * size + i % size, second = r.second * size + i % size;
    if (r.first == r.second) continue;
    rotate(r, buffers.matrix + first, buffers.matrix + second);
    rotate(r, buffers.eigenvectors + first, buffers.eigenvectors + second);
  }
  __syncthreads();
  for (std::int64_t i = threadIdx.x; i < work; i += blockDim.x) {
    const Rotation r = buffers.rotations[i % pairs];
    double* row = buffers.matrix + i / pairs * size;
    if (r.first != r.second) rotate(r, row + r.first, row + r.second);
  }
  __syncthreads();
}

// One block: the rounds of rotations follow each other.
__global__ void __launch_bounds__(block_threads) find_eigenvectors(const GaloreBasis a, const Buffers buffers) {
  begin_kernel();
  if (!a.due()) return;
  const std::int64_t size = a.width();
  double trace = 0;
  for (std::int64_t i = threadIdx.x; i < size * size; i += blockDim.x)
    buffers.eigenvectors[i] = i / size == i % size ? 1 : 0;
  for (std::int64_t i = 0; i < size; ++i) trace += buffers.matrix[i * size + i];
  bool rotated = true;
  for (int sweep = 0; rotated && sweep < largest_sweeps; ++sweep) {
    rotated = false;
    for (std::int64_t round = 0; round < rounds_of(size); ++round) {
      bool mine = false;
      __syncthreads();
      for (std::int64_t pair = threadIdx.x; pair < pairs_of(size); pair += blockDim.x) {
        const Rotation r = rotation_of(buffers.matrix, size, trace, pair_of_round(size, round, pair));
        buffers.rotations[pair] = r;
        mine = mine || r.first != r.second;
      }
      const bool any = reduce_block(mine ? 1 : 0, 0, Larger{}) != 0;
      __syncthreads();
      if (any) turn(buffers, size);
      rotated = rotated || any;
    }
  }
  for (std::int64_t i = threadIdx.x; i < size * size; i += blockDim.x)
    buffers.turned[place_of(buffers.matrix, size, i / size) * size + i % size] =
        static_cast<float>(buffers.eigenvectors[i]);
}

// A block per vector.
__global__ void __launch_bounds__(threads) write_basis(const GaloreBasis a, const float* vectors) {
  begin_kernel();
  if (!a.due()) return;
  for (std::int64_t v = blockIdx.x; v < a.rank; v += gridDim.x) {
    const float* from = vectors + v * a.small();
    float* to = static_cast<float*>(a.basis) + v * a.small();
    float sum = 0;
    for (std::int64_t i = threadIdx.x; i < a.small(); i += blockDim.x) sum = fmaf(from[i], to[i], sum);
    const float sign = sum_of_block(sum) < 0 ? -1.0f : 1.0f;
    for (std::int64_t i = threadIdx.x; i < a.small(); i += blockDim.x) to[i] = sign * from[i];
  }
}

__global__ void mark(const GaloreBasis a) {
  begin_kernel();
  if (a.due()) *a.epoch = a.epoch_of_step();
}

// z = q times the gradient as [small, large], or q = z times its transpose.
Status multiply(const Context& context, const GaloreBasis& a, const Buffers& buffers, bool transposed) {
  const auto* gradient = static_cast<const float*>(a.gradient);
  return multiply<float>(context, a,
                         {.m = a.width(),
                          .n = transposed ? a.small() : a.large(),
                          .k = transposed ? a.large() : a.small(),
                          .x = transposed ? buffers.z : buffers.q,
                          .y = gradient,
                          .ld_y = a.columns,
                          .transposed = transposed == a.projects_rows(),
                          .c = transposed ? buffers.q : buffers.z});
}

Status orthonormal(const Context& context, const GaloreBasis& a, const Buffers& buffers, bool of_z) {
  const Rows rows = of_z ? Rows{buffers.z, a.width(), a.large()} : Rows{buffers.q, a.width(), a.small()};
  return launch(context, {1, block_threads}, orthonormalise, a, rows, buffers.parts);
}

Status iterate(const Context& context, const GaloreBasis& a, const Buffers& buffers) {
  Status status = launch(context, {grid_for(a.width() * a.small(), threads), threads}, draw_start, a, buffers.q);
  if (status == Status::ok) status = orthonormal(context, a, buffers, false);
  for (int half = 0; half < 2 * GaloreBasis::iterations && status == Status::ok; ++half) {
    status = multiply(context, a, buffers, half % 2 == 1);
    if (status == Status::ok) status = orthonormal(context, a, buffers, half % 2 == 0);
  }
  return status == Status::ok ? multiply(context, a, buffers, false) : status;
}

Status finish(const Context& context, const GaloreBasis& a, const Buffers& buffers) {
  const std::int64_t width = a.width();
  Status status =
      multiply<double>(context, a, {width, width, a.large(), buffers.z, buffers.z, a.large(), true, buffers.matrix});
  if (status == Status::ok) status = launch(context, {1, block_threads}, find_eigenvectors, a, buffers);
  if (status == Status::ok)
    status =
        multiply<float>(context, a, {a.rank, a.small(), width, buffers.turned, buffers.q, a.small(), false, buffers.z});
  if (status == Status::ok) status = launch(context, {grid_for(a.rank, 1), threads}, write_basis, a, buffers.z);
  return status == Status::ok ? launch(context, {1, 1}, mark, a) : status;
}

Status run(const Context& context, const GaloreBasis& a) {
  if (context.workspace_bytes < workspace_bytes(context, a)) return Status::workspace_too_small;
  const Buffers buffers(context.workspace, a);
  return with_element(context, [&](auto) {
    const Status status = iterate(context, a, buffers);
    return status == Status::ok ? finish(context, a, buffers) : status;
  });
}

}  // namespace

void bind(Op<GaloreBasis>& op) { op.run = run, op.workspace_bytes = workspace_bytes; }

}  // namespace comera::kernels::cuda
