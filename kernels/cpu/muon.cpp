// Muon on the CPU. The matrices x1 I + x3 S + x5 S^2 = F are polynomials of S = X^T X, so they commute, and S of the
// next iteration, whose X is X F, is F S F. So iterations need X, which has several times as many rows as columns, only
// at their start and end. But each of them multiplies the rounding of a small eigenvalue of S by up to x1^2 = 12, as it
// does the eigenvalue. So S is computed from X again after some of them: with 3 and 2 iterations the error is that of
// five iterations on X, with 5 in one part it is a hundred times as large. X of m x n takes 8 m n^2 + 28 n^3 operations
// in place of 20 m n^2 + 10 n^3.
#include "kernels/muon.h"

#include "kernels/cpu/common/gemm.h"
#include "kernels/cpu/common/item_lanes.h"
#include "kernels/cpu/common/simd.h"
#include "kernels/cpu/common/transpose.h"
#include "kernels/cpu/ops.h"

namespace comera::kernels::COMERA_CPU {
namespace {

constexpr int iterations_of_parts[] = {3, 2};
static_assert(iterations_of_parts[0] + iterations_of_parts[1] == muon_iterations);

struct Memory {
  float *x, *next;                             // [longer, shorter]
  float *square, *factor, *product, *scratch;  // [shorter, shorter]
  std::size_t bytes;

  Memory(void* memory, const MuonShape& s) {
    Workspace workspace(memory);
    x = workspace.floats(s.longer * s.shorter), next = workspace.floats(s.longer * s.shorter);
    float** const small[] = {&square, &factor, &product, &scratch};
    for (float** matrix : small) *matrix = workspace.floats(s.shorter * s.shorter);
    bytes = workspace.used();
  }
};

MuonShape shape_of(const MuonTensor& t) { return muon_shape(t.rows, t.columns); }

ItemLanes lanes_of(const Muon& a) {
  return {a.count, [&](int i) { return Memory(nullptr, shape_of(a.tensors[i])).bytes; }};
}

std::size_t workspace_bytes(const Context&, const Muon& a) { return lanes_of(a).workspace_bytes(); }

// New momentum, and U in the order of the value. Returns the sum of U's squares.
double average(const MuonTensor& t, const MuonFactors& f, float* u) {
  auto* m = static_cast<float*>(t.momentum);
  const auto* gradient = static_cast<const float*>(t.gradient);
  const F scale = set(f.scale), momentum = set(f.momentum), rest = set(f.rest);
  sweep(0, t.rows * t.columns, [&](std::int64_t i, auto lanes) {
    const F part = rest * (load(gradient + i, lanes) * scale), next = fma(momentum, load(m + i, lanes), part);
    store(m + i, next, lanes);
    store(u + i, fma(momentum, next, part), lanes);
  });
  double sum = 0;
  for (std::int64_t i = 0; i < t.rows * t.columns; ++i) sum += static_cast<double>(u[i]) * u[i];
  return sum;
}

// factor = F of S = square
void polynomial(const SmallGemm& multiply, std::int64_t n, const float* square, float* factor) {
  const MuonPolynomial p;
  multiply(square, square, factor);
  sweep(0, n * n, [&](std::int64_t i, auto lanes) {
    store(factor + i, fma(set(p.x5), load(factor + i, lanes), set(p.x3) * load(square + i, lanes)), lanes);
  });
  for (std::int64_t j = 0; j < n; ++j) factor[j * n + j] += p.x1;
}

// The product of F of some iterations. `memory.square` holds S of the first one, and then that of the last one.
const float* product_of_factors(std::int64_t n, int iterations, const Memory& memory) {
  const SmallGemm multiply({n, n, n, n, n, n});
  float *square = memory.square, *product = memory.product, *scratch = memory.scratch;
  polynomial(multiply, n, square, product);
  const float* factor = product;
  for (int iteration = 1; iteration < iterations; ++iteration) {
    multiply(factor, square, scratch);
    multiply(scratch, factor, square);
    polynomial(multiply, n, square, memory.factor);
    factor = memory.factor;
    multiply(product, factor, scratch);
    float* const done = scratch;
    scratch = product, product = done;
  }
  return product;
}

// Returns the matrix with singular values near 1, in `x` or in `next`.
float* orthogonalise(const MuonShape& s, float* x, float* next, const Memory& memory) {
  const std::int64_t m = s.longer, n = s.shorter;
  const SmallGemm square({n, n, m, n, n, n, false, true}), multiply({m, n, n, n, n, n});
  for (const int iterations : iterations_of_parts) {
    square(x, x, memory.square);
    multiply(x, product_of_factors(n, iterations, memory), next);
    float* const done = next;
    next = x, x = done;
  }
  return x;
}

void update(const Muon& a, const MuonTensor& t, void* workspace) {
  const MuonShape s = shape_of(t);
  const std::int64_t count = s.longer * s.shorter;
  const MuonFactors f(*t.scalars, a.scalars->gradient_scale, a.momentum, t.rate_scale);
  const Memory memory(workspace, s);
  const F inverse = set(muon_inverse(average(t, f, memory.next)));
  float *x = memory.x, *other = memory.next;
  if (s.turned) {
    transpose(s.shorter, s.longer, other, s.longer, x, s.shorter);
  } else {
    x = memory.next, other = memory.x;
  }
  sweep(0, count, [&](std::int64_t i, auto lanes) { store(x + i, load(x + i, lanes) * inverse, lanes); });
  const float* result = orthogonalise(s, x, other, memory);
  if (s.turned) {
    float* const turned = result == memory.x ? memory.next : memory.x;
    transpose(s.longer, s.shorter, result, s.shorter, turned, s.longer);
    result = turned;
  }
  auto* w = static_cast<float*>(t.value);
  const F rate = set(f.rate), decay = set(f.decay), size = set(muon_size(s.longer));
  sweep(0, count, [&](std::int64_t i, auto lanes) {
    const F value = load(w + i, lanes);
    store(w + i, fnma(rate, fma(decay, value, size * load(result + i, lanes)), value), lanes);
  });
}

Status run(const Context& context, const Muon& a) {
  if (context.dtype != DType::f32) return Status::unsupported_dtype;
  const ItemLanes lanes = lanes_of(a);
  if (context.workspace_bytes < lanes.workspace_bytes()) return Status::workspace_too_small;
  if (a.scalars->finite == 0) return Status::ok;
  lanes.run(context, [&](int i, void* memory) { update(a, a.tensors[i], memory); });
  return Status::ok;
}

}  // namespace

void bind(Op<Muon>& op) { op.run = run, op.workspace_bytes = workspace_bytes; }

}  // namespace comera::kernels::COMERA_CPU
