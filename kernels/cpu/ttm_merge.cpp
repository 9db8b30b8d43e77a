// Merges the cores of a TTM table into its left and right factor, and the backward. Each factor is its own chain. With
// first core [m, r_0 n, r_1] (r_0 is 1 on the left, r_cut on the right), the partial products are P_k [rows, columns,
// r] with rows = m_1..m_k, columns = r_0 n_1..n_k:
//   P_k[(M, m), (C, n), r'] = sum_a P_{k-1}[M, C, a] F~_k[a, m, n, r'],
// i.e. one block product [C x a][a x (n r')] per pair (M, m), with a contiguous result.
#include "kernels/ttm_merge.h"

#include "kernels/cpu/common/block_product.h"
#include "kernels/cpu/common/transpose.h"
#include "kernels/cpu/common/workspace.h"
#include "kernels/cpu/ops.h"
#include "kernels/host/thread_pool.h"

namespace comera::kernels::COMERA_CPU {
namespace {

constexpr std::int64_t blocks_of_tile = 4;

// One factor: cores first .. last - 1.
struct Factor {
  const TtmTable& t;
  int first, last;

  std::int64_t open_rank() const { return t.ranks[first]; }
  std::int64_t rows(int k) const { return product_of(t.row_modes, first, k + 1); }  // of P_k
  std::int64_t columns(int k) const { return open_rank() * product_of(t.column_modes, first, k + 1); }
  std::int64_t partial(int k) const { return rows(k) * columns(k) * t.ranks[k + 1]; }
  std::int64_t core(int k) const { return t.ranks[k] * t.row_modes[k] * t.column_modes[k] * t.ranks[k + 1]; }
  std::int64_t tail(int k) const { return t.column_modes[k] * t.ranks[k + 1]; }  // n r'
  const float* diagonal(int k) const { return k + 1 < t.d ? f32(t.diagonals[k]) : nullptr; }
};
Factor left_factor(const TtmTable& t) { return {t, 0, t.cut}; }
Factor right_factor(const TtmTable& t) { return {t, t.cut, t.d}; }

struct Memory {
  float* core[max_cores];        // F~_k
  float* transposed[max_cores];  // backward: [m n r', a]
  float* partial[max_cores];     // P_k; the last one is the factor itself if that is float
  float* d_core[max_cores];      // backward
  float* d_partial[max_cores];   // backward; the last one is the gradient of the factor

  Memory(Workspace& workspace, const Factor& h, bool backward) {
    for (int k = h.first; k < h.last; ++k) {
      core[k] = workspace.floats(h.core(k));
      const bool inside = k + 1 < h.last || (!backward && !__is_same(Element, float));
      partial[k] = inside ? workspace.floats(h.partial(k)) : nullptr;
      if (!backward) continue;
      transposed[k] = workspace.floats(h.core(k));
      d_core[k] = workspace.floats(h.core(k));
      d_partial[k] = k + 1 < h.last ? workspace.floats(h.partial(k)) : nullptr;
    }
  }
};

// D where D > threshold, else 0. All ones without a diagonal.
struct BondMask {
  Mask alive;
  F factor;
  template <class Lanes>
  BondMask(const Factor& h, int k, std::int64_t j, Lanes lanes) {
    const float* diagonal = h.diagonal(k);
    const F d = diagonal ? load(diagonal + j, lanes) : set(1.0f);
    alive = set(diagonal ? not_above(h.t.threshold) : 0.0f) < d;
    factor = keep(alive, d);
  }
};

void mask_cores(const Context& context, const Factor& h, const Memory& memory) {
  parallel_for(context, h.last - h.first, [&](std::int64_t tile) {
    const int k = h.first + static_cast<int>(tile);
    const std::int64_t rank = h.t.ranks[k + 1], rows = h.core(k) / max<std::int64_t>(rank, 1);
    for (std::int64_t row = 0; row < rows; ++row)
      sweep(0, rank, [&](std::int64_t j, auto lanes) {
        const std::int64_t at = row * rank + j;
        store(memory.core[k] + at, load(f32(h.t.cores[k]) + at, lanes) * BondMask(h, k, j, lanes).factor, lanes);
      });
  });
}

// Converts between [r_0, m, (n r)] and [m, r_0, (n r)].
void swap_first(const Factor& h, const float* from, float* to, bool back) {
  const std::int64_t r0 = h.open_rank(), m = h.t.row_modes[h.first], tail = h.tail(h.first);
  for (std::int64_t a = 0; a < r0; ++a)
    for (std::int64_t i = 0; i < m; ++i) {
      const std::int64_t core = (a * m + i) * tail, product = (i * r0 + a) * tail;
      copy_block(1, tail, from + (back ? product : core), tail, to + (back ? core : product), tail);
    }
}

// Computes P_first .. P_{end - 1}.
void multiply(const Context& context, const Factor& h, const Memory& memory, int end) {
  swap_first(h, memory.core[h.first], memory.partial[h.first], false);
  for (int k = h.first + 1; k < end; ++k) {
    const std::int64_t m = h.t.row_modes[k], a = h.t.ranks[k], c = h.columns(k - 1), tail = h.tail(k),
                       blocks = h.rows(k);
    parallel_for(context, tiles_of(blocks, blocks_of_tile), [&](std::int64_t tile) {
      for (std::int64_t b = tile * blocks_of_tile; b < min(blocks, (tile + 1) * blocks_of_tile); ++b) {
        const OneBlock<float> factors{memory.partial[k - 1] + b / m * c * a, memory.core[k] + b % m * tail};
        block_product({c, tail, a, a, 1, m * tail}, factors,
                      BlockResult{memory.partial[k] + b * c * tail, tail, false});
      }
    });
  }
}

void merge_factor(const Context& context, const Factor& h, Memory memory, void* factor) {
  float*& merged = memory.partial[h.last - 1];
  if (__is_same(Element, float)) merged = f32(factor);
  mask_cores(context, h, memory);
  multiply(context, h, memory, h.last);
  if (!__is_same(Element, float)) copy_block(1, h.partial(h.last - 1), merged, 0, elements(factor), 0);
}

std::size_t merge_workspace(const Context&, const TtmMerge& a) {
  Workspace workspace(nullptr);
  Memory(workspace, left_factor(*a.table), false);
  Memory(workspace, right_factor(*a.table), false);
  return workspace.used();
}

Status run(const Context& context, const TtmMerge& a) {
  if (context.dtype != element_type) return Status::unsupported_dtype;
  if (context.workspace_bytes < merge_workspace(context, a)) return Status::workspace_too_small;
  const TtmTable& t = *a.table;
  Workspace workspace(context.workspace);
  const Memory left(workspace, left_factor(t), false), right(workspace, right_factor(t), false);
  merge_factor(context, left_factor(t), left, t.left);
  if (t.cut < t.d)
    merge_factor(context, right_factor(t), right, t.right);
  else
    set_number(*elements(t.right), 1);
  return Status::ok;
}

// dF~_k[a, m, n r'] = sum over M, C of P_{k-1}[M, C, a] dP_k[(M, m), C, n r']
void core_gradient(const Context& context, const Factor& h, const Memory& memory, int k) {
  const std::int64_t m = h.t.row_modes[k], a = h.t.ranks[k], c = h.columns(k - 1), tail = h.tail(k),
                     before = h.rows(k - 1);
  parallel_for(context, m, [&](std::int64_t i) {
    const EvenBlocks items{memory.partial[k - 1], c * a, memory.d_partial[k] + i * c * tail, m * c * tail, before};
    block_product({a, tail, c, 1, a, tail}, items, BlockResult{memory.d_core[k] + i * tail, m * tail, false});
  });
}

// dP_{k-1}[M, C, a] = sum over m, n r' of dP_k[(M, m), C, n r'] F~_k[a, m, n r']
void partial_gradient(const Context& context, const Factor& h, const Memory& memory, int k) {
  const std::int64_t m = h.t.row_modes[k], a = h.t.ranks[k], c = h.columns(k - 1), tail = h.tail(k);
  transpose(a, m * tail, memory.core[k], m * tail, memory.transposed[k], a);
  parallel_for(context, h.rows(k - 1), [&](std::int64_t row) {
    const EvenBlocks items{memory.d_partial[k] + row * m * c * tail, c * tail, memory.transposed[k], tail * a, m};
    block_product({c, a, tail, tail, 1, a}, items, BlockResult{memory.d_partial[k - 1] + row * c * a, a, false});
  });
}

// d_core += dF~ D~; d_diagonal[j] += [D_j > threshold] sum dF~[.., j] F[.., j]
void unmask(const Factor& h, const Memory& memory, int k) {
  const std::int64_t rank = h.t.ranks[k + 1], rows = h.core(k) / max<std::int64_t>(rank, 1);
  float *d_core = f32(h.t.d_cores[k]), *d_diagonal = h.diagonal(k) ? f32(h.t.d_diagonals[k]) : nullptr;
  const float *gradient = memory.d_core[k], *core = f32(h.t.cores[k]);
  sweep(0, rank, [&](std::int64_t j, auto lanes) {
    const BondMask mask(h, k, j, lanes);
    F sum = zero();
    for (std::int64_t at = j; at < rows * rank; at += rank) {
      const F g = load(gradient + at, lanes);
      store(d_core + at, fma(g, mask.factor, load(d_core + at, lanes)), lanes);
      sum = fma(g, load(core + at, lanes), sum);
    }
    if (d_diagonal) store(d_diagonal + j, load(d_diagonal + j, lanes) + keep(mask.alive, sum), lanes);
  });
}

void factor_backward(const Context& context, const Factor& h, Memory memory, const float* d_factor) {
  memory.d_partial[h.last - 1] = const_cast<float*>(d_factor);  // read only
  mask_cores(context, h, memory);
  if (h.last - h.first > 1) multiply(context, h, memory, h.last - 1);
  for (int k = h.last - 1; k > h.first; --k) {
    core_gradient(context, h, memory, k);
    partial_gradient(context, h, memory, k);
  }
  swap_first(h, memory.d_partial[h.first], memory.d_core[h.first], true);
  parallel_for(context, h.last - h.first,
               [&](std::int64_t tile) { unmask(h, memory, h.first + static_cast<int>(tile)); });
}

std::size_t backward_workspace(const Context&, const TtmMergeBackward& a) {
  Workspace workspace(nullptr);
  Memory(workspace, left_factor(*a.table), true);
  Memory(workspace, right_factor(*a.table), true);
  return workspace.used();
}

Status run(const Context& context, const TtmMergeBackward& a) {
  if (context.dtype != DType::f32) return Status::unsupported_dtype;
  if (context.workspace_bytes < backward_workspace(context, a)) return Status::workspace_too_small;
  const TtmTable& t = *a.table;
  Workspace workspace(context.workspace);
  const Memory left(workspace, left_factor(t), true), right(workspace, right_factor(t), true);
  factor_backward(context, left_factor(t), left, f32(t.d_left));
  if (t.cut < t.d) factor_backward(context, right_factor(t), right, f32(t.d_right));
  return Status::ok;
}

}  // namespace

void bind(Op<TtmMerge>& op) { op.run = run, op.workspace_bytes = merge_workspace; }
void bind(Op<TtmMergeBackward>& op) { op.run = run, op.workspace_bytes = backward_workspace; }

}  // namespace comera::kernels::COMERA_CPU
