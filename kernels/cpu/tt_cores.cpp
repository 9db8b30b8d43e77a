// Merges cores into left and right factors on the CPU. Each factor is a chain: lead x core x core ..., with a lead of 1
// for the left factor and of r_d rows for the right factor. The last index of a partial product is the next bond, so
// every step is one plain matrix product.
//
// Factors are dealt to lanes. A lane computes its factors one after the other in its own workspace.
#include "kernels/tt_cores.h"

#include <initializer_list>

#include "kernels/cpu/common/element.h"
#include "kernels/cpu/common/gemm.h"
#include "kernels/cpu/common/transpose.h"
#include "kernels/cpu/common/workspace.h"
#include "kernels/cpu/ops.h"
#include "kernels/host/thread_pool.h"

namespace comera::kernels::COMERA_CPU {
namespace {

constexpr std::int64_t largest_lanes = 8;

// One factor: cores first .. first + d - 1 of the matrix.
struct Factor {
  const TtMatrix& t;
  bool is_right;
  int d, first;
  std::int64_t lead;

  Factor(const TtMatrix& t, bool is_right)
      : t(t),
        is_right(is_right),
        d(is_right ? t.e : t.d),
        first(is_right ? t.d : 0),
        lead(is_right ? t.ranks[t.d] : 1) {}

  std::int64_t rows(int i) const { return lead * product_of(t.modes, first, first + i); }  // of the product of i cores
  std::int64_t bond(int i) const { return t.ranks[first + i]; }                            // columns of that product
  std::int64_t mode(int i) const { return t.modes[first + i]; }                            // of core i
  std::int64_t core_size(int i) const { return bond(i) * mode(i) * bond(i + 1); }
  const float* core(int i) const { return f32(t.cores[first + i]); }
  const float* diagonal(int i) const { return first + i < t.d + t.e - 1 ? f32(t.diagonals[first + i]) : nullptr; }
  float* d_core(int i) const { return f32(t.d_cores[first + i]); }
  float* d_diagonal(int i) const { return first + i < t.d + t.e - 1 ? f32(t.d_diagonals[first + i]) : nullptr; }
};

float masked(float value, double threshold) { return value > threshold ? value : 0; }

// The core times its masked diagonal, which it has.
void mask_core(const Factor& h, int i, float* out) {
  const float *core = h.core(i), *diagonal = h.diagonal(i);
  const std::int64_t rows = h.bond(i) * h.mode(i), columns = h.bond(i + 1);
  for (std::int64_t j = 0; j < columns; ++j) {
    const float factor = masked(diagonal[j], h.t.threshold);
    for (std::int64_t r = 0; r < rows; ++r) out[r * columns + j] = core[r * columns + j] * factor;
  }
}

// Memory of a factor: masked cores, and partial products of several cores; for the backward also their gradients.
struct FactorMemory {
  float* masked[max_cores] = {};       // of cores with a diagonal
  const float* core[max_cores] = {};   // masked, or the core itself
  float* product[max_cores + 1] = {};  // of the first i cores, from 2 on
  float* d_partial[2] = {};            // gradients of two neighbours, used alternately
  float* d_core = nullptr;
  float* transposed = nullptr;  // a masked core

  FactorMemory(const Factor& h, bool backward, Workspace& workspace) {
    std::int64_t largest_core = 0;
    for (int i = 0; i < h.d; ++i) {
      core[i] = h.diagonal(i) ? masked[i] = workspace.floats(h.core_size(i)) : h.core(i);
      largest_core = max(largest_core, h.core_size(i));
    }
    std::int64_t largest_partial = 0;
    for (int i = 1; i <= h.d; ++i) {
      if (i > 1) product[i] = workspace.floats(h.rows(i) * h.bond(i));
      largest_partial = max(largest_partial, h.rows(i) * h.bond(i));
    }
    if (!backward) return;
    d_partial[0] = workspace.floats(largest_partial);
    if (h.d == 1) return;
    d_partial[1] = workspace.floats(largest_partial);
    d_core = workspace.floats(largest_core);
    transposed = workspace.floats(largest_core);
  }

  // The product of the first i cores, [rows(i), bond(i)]. The lead is the first index of the first core itself.
  const float* partial(int i) const { return i == 1 ? core[0] : product[i]; }
};

// Computes the masked cores, and the partial products of the first 1 .. last cores.
void contract(const Factor& h, const FactorMemory& memory, int last) {
  for (int i = 0; i < h.d; ++i)
    if (h.diagonal(i)) mask_core(h, i, memory.masked[i]);
  for (int i = 2; i <= last; ++i) {
    const std::int64_t rows = h.rows(i - 1), inner = h.bond(i - 1), columns = h.mode(i - 1) * h.bond(i);
    SmallGemm({rows, columns, inner, inner, columns, columns})(memory.partial(i - 1), memory.core[i - 1],
                                                               memory.product[i]);
  }
}

void zero_rows(std::int64_t rows, std::int64_t columns, Element* out, std::int64_t ld) {
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) out[i * ld + j] = {};
}

// Calls body(row of the chain, row of A) for each row of A.
template <class Body>
void for_left_rows(const TtMatrix& t, Body body) {
  const std::int64_t rows = rows_of(t);
  for (std::int64_t p = 0; p < rows; ++p) body(p, t.order ? t.order[p] : p);
}

// Calls body(first column of B, first column of the core, count) for each run of columns between those of the identity.
// Each run ends at the next larger identity column, found by a linear search because there are few of them.
template <class Body>
void for_stored_columns(const TtMatrix& t, Body body) {
  const std::int64_t columns = columns_of(t), rank = t.gauge ? t.ranks[t.d] : 0;
  for (std::int64_t begin = 0, stored = 0; begin < columns;) {
    std::int64_t end = columns;
    for (std::int64_t r = 0; r < rank; ++r)
      if (t.gauge[r] >= begin) end = min<std::int64_t>(end, t.gauge[r]);
    if (end > begin) body(begin, stored, end - begin);
    stored += end - begin;
    begin = end + 1;
  }
}

void write_right(const TtMatrix& t, const float* stored) {
  const std::int64_t rank = t.ranks[t.d], columns = columns_of(t), kept = stored_columns_of(t);
  Element* right = elements(t.right);
  zero_rows(padded_rank(rank) - rank, columns, right + rank * columns, columns);
  if (!t.gauge) return copy_block(rank, columns, stored, columns, right, columns);
  for_stored_columns(t, [&](std::int64_t to, std::int64_t from, std::int64_t count) {
    copy_block(rank, count, stored + from, kept, right + to, columns);
  });
  for (std::int64_t r = 0; r < rank; ++r)
    for (std::int64_t i = 0; i < rank; ++i) set_number(right[i * columns + t.gauge[r]], i == r ? 1 : 0);
}

void merge_factor(const Factor& h, Workspace workspace) {
  const FactorMemory memory(h, false, workspace);
  contract(h, memory, h.d);
  const float* product = memory.partial(h.d);
  if (h.is_right) return write_right(h.t, product);
  const std::int64_t rank = h.t.ranks[h.t.d], padding = padded_rank(rank) - rank;
  for_left_rows(h.t, [&](std::int64_t p, std::int64_t row) {
    Element* to = elements(h.t.left) + row * h.t.ld_left;
    copy_block(1, rank, product + p * rank, 0, to, 0);
    zero_rows(1, padding, to + rank, 0);
  });
}

// Converts the gradient of a masked core into gradients of the core and of its diagonal.
void unmask_gradient(const Factor& h, int i, const float* gradient) {
  const std::int64_t rows = h.bond(i) * h.mode(i), columns = h.bond(i + 1);
  const float *core = h.core(i), *diagonal = h.diagonal(i);
  float *d_core = h.d_core(i), *d_diagonal = h.d_diagonal(i);
  for (std::int64_t j = 0; j < columns; ++j) {
    const float factor = diagonal ? masked(diagonal[j], h.t.threshold) : 1;
    if (factor == 0) continue;
    double sum = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
      sum += static_cast<double>(gradient[r * columns + j]) * core[r * columns + j];
      d_core[r * columns + j] += gradient[r * columns + j] * factor;
    }
    if (d_diagonal) d_diagonal[j] += static_cast<float>(sum);
  }
}

void merge_factor_backward(const Factor& h, Workspace workspace) {
  const FactorMemory memory(h, true, workspace);
  contract(h, memory, h.d - 1);
  float* d_partial = memory.d_partial[0];
  float* d_before = memory.d_partial[1];
  const std::int64_t rank = h.t.ranks[h.t.d], kept = stored_columns_of(h.t);
  if (h.is_right) {
    for_stored_columns(h.t, [&](std::int64_t from, std::int64_t to, std::int64_t count) {
      copy_block(rank, count, f32(h.t.d_right) + from, columns_of(h.t), d_partial + to, kept);
    });
  } else {
    for_left_rows(h.t, [&](std::int64_t p, std::int64_t row) {
      copy_block(1, rank, f32(h.t.d_left) + row * h.t.ld_left, 0, d_partial + p * rank, 0);
    });
  }
  for (int i = h.d; i >= 2; --i) {
    const std::int64_t rows = h.rows(i - 1), inner = h.bond(i - 1), columns = h.mode(i - 1) * h.bond(i);
    SmallGemm({inner, columns, rows, inner, columns, columns, false, true})(memory.partial(i - 1), d_partial,
                                                                            memory.d_core);
    unmask_gradient(h, i - 1, memory.d_core);
    transpose(inner, columns, memory.core[i - 1], columns, memory.transposed, inner);
    SmallGemm({rows, inner, columns, columns, inner, inner})(d_partial, memory.transposed, d_before);
    float* const done = d_partial;
    d_partial = d_before;
    d_before = done;
  }
  unmask_gradient(h, 0, d_partial);
}

std::size_t factor_bytes(const Factor& h, bool backward) {
  Workspace counter(nullptr);
  const FactorMemory memory(h, backward, counter);
  return counter.used();
}

std::size_t lane_bytes(const TtMatrix* matrices, int count, bool backward) {
  std::size_t most = 0;
  for (int i = 0; i < count; ++i)
    for (bool is_right : {false, true}) most = max(most, factor_bytes(Factor(matrices[i], is_right), backward));
  return most;
}
std::int64_t lanes_of(int count) { return min<std::int64_t>(largest_lanes, 2 * count); }

std::size_t merge_workspace(const Context&, const TtMerge& a) {
  return static_cast<std::size_t>(lanes_of(a.count)) * lane_bytes(a.matrices, a.count, false);
}
std::size_t merge_backward_workspace(const Context&, const TtMergeBackward& a) {
  return static_cast<std::size_t>(lanes_of(a.count)) * lane_bytes(a.matrices, a.count, true);
}

template <class Run>
void for_each_factor(const Context& context, const TtMatrix* matrices, int count, bool backward, Run run) {
  const std::int64_t lanes = lanes_of(count);
  const std::size_t bytes = lane_bytes(matrices, count, backward);
  parallel_for(context, lanes, [&](std::int64_t lane) {
    char* memory = static_cast<char*>(context.workspace) + static_cast<std::size_t>(lane) * bytes;
    for (std::int64_t factor = lane; factor < 2 * count; factor += lanes)
      run(Factor(matrices[factor / 2], factor % 2 != 0), Workspace(memory));
  });
}

Status run_merge(const Context& context, const TtMerge& a) {
  if (context.dtype != element_type) return Status::unsupported_dtype;
  if (context.workspace_bytes < merge_workspace(context, a)) return Status::workspace_too_small;
  for_each_factor(context, a.matrices, a.count, false,
                  [](const Factor& h, Workspace workspace) { merge_factor(h, workspace); });
  return Status::ok;
}

Status run_merge_backward(const Context& context, const TtMergeBackward& a) {
  if (context.dtype != DType::f32) return Status::unsupported_dtype;
  if (context.workspace_bytes < merge_backward_workspace(context, a)) return Status::workspace_too_small;
  for_each_factor(context, a.matrices, a.count, true,
                  [](const Factor& h, Workspace workspace) { merge_factor_backward(h, workspace); });
  return Status::ok;
}

}  // namespace

void bind(Op<TtMerge>& op) { op.run = run_merge, op.workspace_bytes = merge_workspace; }
void bind(Op<TtMergeBackward>& op) { op.run = run_merge_backward, op.workspace_bytes = merge_backward_workspace; }

}  // namespace comera::kernels::COMERA_CPU
