// Decay of the norm of products of cores on the CPU. A core [r, s, q] is processed in blocks of its middle index, so
// that each row of a block is a matrix [block, q].
#include "kernels/chain_decay.h"

#include <cmath>

#include "kernels/cpu/common/gemm.h"
#include "kernels/cpu/common/item_lanes.h"
#include "kernels/cpu/common/simd.h"
#include "kernels/cpu/common/transpose.h"
#include "kernels/cpu/common/workspace.h"
#include "kernels/cpu/ops.h"

namespace comera::kernels::COMERA_CPU {
namespace {

constexpr std::int64_t most_sizes = 64;  // of a block

struct Memory {
  float *left[max_cores] = {}, *right[max_cores] = {};  // L and R of each core
  float *product, *other;                               // of a block
  std::size_t bytes;

  Memory(void* memory, const DecayingChain& c) {
    Workspace workspace(memory);
    std::int64_t block = 0;
    for (int k = 0; k < c.cores; ++k) {
      left[k] = workspace.floats(c.ranks[k] * c.ranks[k]), right[k] = workspace.floats(c.ranks[k + 1] * c.ranks[k + 1]);
      block = max(block, c.ranks[k] * min(c.sizes[k], most_sizes) * c.ranks[k + 1]);
    }
    product = workspace.floats(block), other = workspace.floats(block);
    bytes = workspace.used();
  }
};

ItemLanes lanes_of(const ChainDecay& a) {
  return {a.count, [&](int i) { return Memory(nullptr, a.chains[i]).bytes; }};
}

std::size_t workspace_bytes(const Context&, const ChainDecay& a) { return lanes_of(a).workspace_bytes(); }

// A block of core k: `rows` matrices [sizes, columns], `ld` apart.
struct Block {
  float* values;
  std::int64_t rows, sizes, columns, ld;
  std::int64_t width() const { return sizes * columns; }
};

template <class Body>
void for_blocks(const DecayingChain& c, int k, Body body) {
  const std::int64_t rows = c.ranks[k], columns = c.ranks[k + 1];
  for (std::int64_t first = 0; first < c.sizes[k]; first += most_sizes)
    body(Block{f32(c.values[k]) + first * columns, rows, min(most_sizes, c.sizes[k] - first), columns,
               c.sizes[k] * columns});
}

// to [rows, width] = L block
void from_left(const Block& b, const float* left, float* to) {
  SmallGemm({b.rows, b.width(), b.rows, b.rows, b.ld, b.width()})(left, b.values, to);
}

// to [rows, width] = block R
void from_right(const Block& b, const float* right, float* to) {
  const SmallGemm multiply({b.sizes, b.columns, b.columns, b.columns, b.columns, b.columns});
  for (std::int64_t i = 0; i < b.rows; ++i) multiply(b.values + i * b.ld, right, to + i * b.width());
}

void mask(const float* diagonal, double threshold, std::int64_t rank, float* gram) {
  if (!diagonal) return;
  const auto masked = [&](std::int64_t i) { return diagonal[i] > threshold ? diagonal[i] : 0; };
  for (std::int64_t i = 0; i < rank; ++i)
    for (std::int64_t j = 0; j < rank; ++j) gram[i * rank + j] *= masked(i) * masked(j);
}

const float* diagonal_of(const DecayingChain& c, int bond) {
  return bond == 0 || bond == c.cores ? nullptr : f32(c.diagonals[bond - 1]);
}

void clear(float* gram, std::int64_t rank) {
  for (std::int64_t i = 0; i < rank * rank; ++i) gram[i] = 0;
}

// L of core k + 1 from that of core k: the sum of G_i^T (L G)_i over the rows i.
void next_left(const DecayingChain& c, int k, double threshold, const Memory& memory) {
  float* next = memory.left[k + 1];
  clear(next, c.ranks[k + 1]);
  for_blocks(c, k, [&](const Block& b) {
    from_left(b, memory.left[k], memory.product);
    const SmallGemm add({b.columns, b.columns, b.sizes, b.columns, b.columns, b.columns, true, true});
    for (std::int64_t i = 0; i < b.rows; ++i) add(b.values + i * b.ld, memory.product + i * b.width(), next);
  });
  mask(diagonal_of(c, k + 1), threshold, c.ranks[k + 1], next);
}

// R of core k - 1 from that of core k: (G R) G^T.
void next_right(const DecayingChain& c, int k, double threshold, const Memory& memory) {
  float* next = memory.right[k - 1];
  clear(next, c.ranks[k]);
  for_blocks(c, k, [&](const Block& b) {
    from_right(b, memory.right[k], memory.product);
    transpose(b.rows, b.width(), b.values, b.ld, memory.other, b.rows);
    SmallGemm({b.rows, b.rows, b.width(), b.width(), b.rows, b.rows, true})(memory.product, memory.other, next);
  });
  mask(diagonal_of(c, k), threshold, c.ranks[k], next);
}

double mean_of_active(const DecayingChain& c, int bond, double threshold, const float* gram) {
  const float* diagonal = diagonal_of(c, bond);
  double sum = 0, active = 0;
  for (std::int64_t j = 0; j < c.ranks[bond]; ++j) {
    sum += gram[j * c.ranks[bond] + j];
    active += !diagonal || diagonal[j] > threshold;
  }
  return active > 0 ? sum / active : 0;
}

double norm_of(std::int64_t rank, const float* gram) {
  double sum = 0;
  for (std::int64_t i = 0; i < rank * rank; ++i) sum += static_cast<double>(gram[i]) * gram[i];
  return std::sqrt(sum);
}

// G -= factor L G R
void shrink(const DecayingChain& c, int k, double factor_of_core, const Memory& memory) {
  const F factor = set(static_cast<float>(factor_of_core));
  for_blocks(c, k, [&](const Block& b) {
    from_right(b, memory.right[k], memory.product);
    SmallGemm({b.rows, b.width(), b.rows, b.rows, b.width(), b.width()})(memory.left[k], memory.product, memory.other);
    for (std::int64_t i = 0; i < b.rows; ++i) {
      float* row = b.values + i * b.ld;
      const float* slope = memory.other + i * b.width();
      sweep(0, b.width(), [&](std::int64_t j, auto lanes) {
        store(row + j, fnma(factor, load(slope + j, lanes), load(row + j, lanes)), lanes);
      });
    }
  });
}

void decay_chain(const ChainDecay& a, const DecayingChain& c, void* workspace) {
  const double share = share_of(a, c.scalars->learning_rate) / c.cores;
  if (share == 0) return;
  const Memory memory(workspace, c);
  memory.left[0][0] = memory.right[c.cores - 1][0] = 1;
  for (int k = 0; k + 1 < c.cores; ++k) next_left(c, k, a.threshold, memory);
  for (int k = c.cores - 1; k > 0; --k) next_right(c, k, a.threshold, memory);
  double means[max_cores];
  for (int k = 0; k < c.cores; ++k) {
    means[k] =
        mean_of_active(c, k, a.threshold, memory.left[k]) * mean_of_active(c, k + 1, a.threshold, memory.right[k]);
    if (means[k] == 0) return;
  }
  for (int k = 0; k < c.cores; ++k) {
    const double norms = norm_of(c.ranks[k], memory.left[k]) * norm_of(c.ranks[k + 1], memory.right[k]);
    shrink(c, k, factor_of(share, means[k], norms), memory);
  }
}

Status run(const Context& context, const ChainDecay& a) {
  if (context.dtype != DType::f32) return Status::unsupported_dtype;
  const ItemLanes lanes = lanes_of(a);
  if (context.workspace_bytes < lanes.workspace_bytes()) return Status::workspace_too_small;
  if (share_of(a, 1) == 0) return Status::ok;
  lanes.run(context, [&](int i, void* memory) { decay_chain(a, a.chains[i], memory); });
  return Status::ok;
}

}  // namespace

void bind(Op<ChainDecay>& op) { op.run = run, op.workspace_bytes = workspace_bytes; }

}  // namespace comera::kernels::COMERA_CPU
