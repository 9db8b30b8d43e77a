// The subspace of GaLore.
#include "kernels/galore.h"

#include <cstring>

#include "kernels/cpu/common/tile_gemm.h"
#include "kernels/cpu/common/workspace.h"
#include "kernels/cpu/ops.h"
#include "kernels/host/thread_pool.h"

namespace comera::kernels::COMERA_CPU {
namespace {

constexpr std::int64_t vectors_of_tile = 32, entries_of_tile = 512, rows_of_tile = 8;

struct Buffers {
  float *q, *z, *turned;          // [width, small], [width, large], [width, width]
  double *matrix, *eigenvectors;  // [width, width]
  float* parts;                   // [width]
  Rotation* rotations;            // of a round
  std::size_t bytes;

  Buffers(void* memory, const GaloreBasis& a) {
    Workspace workspace(memory);
    const std::int64_t width = a.width(), doubles = 2 * width * width;
    q = workspace.floats(width * a.small()), z = workspace.floats(width * a.large());
    turned = workspace.floats(width * width), parts = workspace.floats(width);
    matrix = static_cast<double*>(static_cast<void*>(workspace.floats(doubles)));
    eigenvectors = static_cast<double*>(static_cast<void*>(workspace.floats(doubles)));
    const auto words = static_cast<std::int64_t>(sizeof(Rotation) / sizeof(float));
    rotations = static_cast<Rotation*>(static_cast<void*>(workspace.floats(words * pairs_of(width))));
    bytes = workspace.used();
  }
};

std::size_t workspace_bytes(const Context&, const GaloreBasis& a) { return Buffers(nullptr, a).bytes; }

struct Vectors {
  float* data;
  std::int64_t count, size;
  float* operator[](std::int64_t i) const { return data + i * size; }
};

double dot(const float* x, const float* y, std::int64_t size) {
  F total = zero();
  sweep(0, size, [&](std::int64_t i, auto lanes) { total = fma(load(x + i, lanes), load(y + i, lanes), total); });
  return static_cast<double>(sum(total));
}

double norm_of(const float* x, std::int64_t size) { return ::sqrt(dot(x, x, size)); }

// Takes the parts along the vectors before `at` from it, twice. Returns the part of its norm that is left.
double take_parts(const Context& context, const Vectors& vectors, std::int64_t at, float* parts) {
  float* x = vectors[at];
  const double before = norm_of(x, vectors.size);
  for (int pass = 0; pass < 2; ++pass) {
    parallel_for(context, tiles_of(at, vectors_of_tile), [&](std::int64_t tile) {
      for (std::int64_t j = tile * vectors_of_tile; j < min(at, (tile + 1) * vectors_of_tile); ++j)
        parts[j] = static_cast<float>(dot(vectors[j], x, vectors.size));
    });
    parallel_for(context, tiles_of(vectors.size, entries_of_tile), [&](std::int64_t tile) {
      const std::int64_t first = tile * entries_of_tile, last = min(vectors.size, first + entries_of_tile);
      for (std::int64_t j = 0; j < at; ++j)
        sweep(first, last, [&](std::int64_t i, auto lanes) {
          store(x + i, fnma(set(parts[j]), load(vectors[j] + i, lanes), load(x + i, lanes)), lanes);
        });
    });
  }
  return before > 0 ? norm_of(x, vectors.size) / before : 0;
}

void draw(const SketchRule& rule, std::int64_t number, float* to, std::int64_t size) {
  for (std::int64_t i = 0; i < size; ++i) to[i] = start_entry(rule, number, i);
}

void orthonormalise(const Context& context, const SketchRule& rule, const Vectors& vectors, float* parts) {
  for (std::int64_t i = 0; i < vectors.count; ++i) {
    float* x = vectors[i];
    if (take_parts(context, vectors, i, parts) < dependent) {
      draw(rule, vectors.count + i, x, vectors.size);
      take_parts(context, vectors, i, parts);
    }
    const F factor = set(static_cast<float>(1 / norm_of(x, vectors.size)));
    sweep(0, vectors.size, [&](std::int64_t k, auto lanes) { store(x + k, load(x + k, lanes) * factor, lanes); });
  }
}

void multiply(const Context& context, const Factors& factors, float* to, bool accumulate, std::int64_t ld) {
  for_each_tile(context, factors,
                [&](const Tile& t, const float* product) { add_tile(t, product, accumulate, to, ld); });
}

// to = x times the gradient as [small, large], or times its transpose.
void multiply(const Context& context, const GaloreBasis& a, const Vectors& x, bool transposed, const Vectors& to) {
  multiply(context,
           {.m = x.count,
            .n = to.size,
            .k = x.size,
            .a = x.data,
            .lda = x.size,
            .transpose_a = false,
            .b = f32(a.gradient),
            .ldb = a.columns,
            .transpose_b = transposed == a.projects_rows()},
           to.data, false, to.size);
}

// matrix = b b^T, in double.
void square(const Context& context, const Vectors& b, double* matrix) {
  parallel_for(context, b.count, [&](std::int64_t i) {
    for (std::int64_t j = 0; j <= i; ++j) {
      D even{}, odd{};
      std::int64_t k = 0;
      for (; k + F::width <= b.size; k += F::width) {
        const F x = load(b[i] + k), y = load(b[j] + k);
        even = fma(low_half(x), low_half(y), even), odd = fma(high_half(x), high_half(y), odd);
      }
      double total = sum(even) + sum(odd);
      for (; k < b.size; ++k) total = __builtin_fma(b[i][k], b[j][k], total);
      matrix[i * b.count + j] = matrix[j * b.count + i] = total;
    }
  });
}

// Rotates rows of the matrix and of the eigenvectors, then columns of the matrix.
void turn(const Context& context, const Buffers& buffers, std::int64_t size) {
  const std::int64_t pairs = pairs_of(size);
  parallel_for(context, tiles_of(pairs, rows_of_tile), [&](std::int64_t tile) {
    for (std::int64_t pair = tile * rows_of_tile; pair < min(pairs, (tile + 1) * rows_of_tile); ++pair) {
      const Rotation r = buffers.rotations[pair];
      if (r.first == r.second) continue;
      for (std::int64_t k = 0; k < size; ++k) {
        rotate(r, buffers.matrix + r.first * size + k, buffers.matrix + r.second * size + k);
        rotate(r, buffers.eigenvectors + r.first * size + k, buffers.eigenvectors + r.second * size + k);
      }
    }
  });
  parallel_for(context, tiles_of(size, rows_of_tile), [&](std::int64_t tile) {
    for (std::int64_t row = tile * rows_of_tile; row < min(size, (tile + 1) * rows_of_tile); ++row)
      for (std::int64_t pair = 0; pair < pairs; ++pair) {
        const Rotation r = buffers.rotations[pair];
        if (r.first == r.second) continue;
        rotate(r, buffers.matrix + row * size + r.first, buffers.matrix + row * size + r.second);
      }
  });
}

void find_eigenvectors(const Context& context, const Buffers& buffers, std::int64_t size) {
  std::memset(buffers.eigenvectors, 0, static_cast<std::size_t>(size * size) * sizeof(double));
  double trace = 0;
  for (std::int64_t i = 0; i < size; ++i) buffers.eigenvectors[i * size + i] = 1, trace += buffers.matrix[i * size + i];
  bool rotated = true;
  for (int sweep = 0; rotated && sweep < largest_sweeps; ++sweep) {
    rotated = false;
    for (std::int64_t round = 0; round < rounds_of(size); ++round) {
      bool any = false;
      for (std::int64_t pair = 0; pair < pairs_of(size); ++pair) {
        Rotation& r = buffers.rotations[pair];
        r = rotation_of(buffers.matrix, size, trace, pair_of_round(size, round, pair));
        any |= r.first != r.second;
      }
      if (any) turn(context, buffers, size);
      rotated |= any;
    }
  }
}

void write_basis(const Context& context, const GaloreBasis& a, const float* vectors) {
  parallel_for(context, a.rank, [&](std::int64_t v) {
    const float* from = vectors + v * a.small();
    float* to = f32(a.basis) + v * a.small();
    const F sign = set(dot(from, to, a.small()) < 0 ? -1.0f : 1.0f);
    sweep(0, a.small(), [&](std::int64_t i, auto lanes) { store(to + i, sign * load(from + i, lanes), lanes); });
  });
}

Status run(const Context& context, const GaloreBasis& a) {
  if (context.dtype != DType::f32) return Status::unsupported_dtype;
  if (context.workspace_bytes < workspace_bytes(context, a)) return Status::workspace_too_small;
  if (!a.due()) return Status::ok;
  const Buffers buffers(context.workspace, a);
  const std::int64_t width = a.width();
  const Vectors q{buffers.q, width, a.small()}, z{buffers.z, width, a.large()};
  const SketchRule rule = rule_of(a);
  parallel_for(context, width, [&](std::int64_t v) { draw(rule, v, q[v], q.size); });
  orthonormalise(context, rule, q, buffers.parts);
  for (int step = 0; step < GaloreBasis::iterations; ++step) {
    multiply(context, a, q, false, z);
    orthonormalise(context, rule, z, buffers.parts);
    multiply(context, a, z, true, q);
    orthonormalise(context, rule, q, buffers.parts);
  }
  multiply(context, a, q, false, z);
  square(context, z, buffers.matrix);
  find_eigenvectors(context, buffers, width);
  for (std::int64_t i = 0; i < width; ++i)
    for (std::int64_t k = 0, to = place_of(buffers.matrix, width, i) * width; k < width; ++k)
      buffers.turned[to + k] = static_cast<float>(buffers.eigenvectors[i * width + k]);
  multiply(context,
           {.m = a.rank,
            .n = q.size,
            .k = width,
            .a = buffers.turned,
            .lda = width,
            .transpose_a = false,
            .b = q.data,
            .ldb = q.size,
            .transpose_b = false},
           z.data, false, q.size);
  write_basis(context, a, z.data);
  *a.epoch = a.epoch_of_step();
  return Status::ok;
}

}  // namespace

void bind(Op<GaloreBasis>& op) { op.run = run, op.workspace_bytes = workspace_bytes; }

}  // namespace comera::kernels::COMERA_CPU
