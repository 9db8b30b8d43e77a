// Each half of each matrix is a chain: lead x core x core ..., with lead 1 for the left half and r_d rows for the right one.
// Partial products are matrices whose last index is the next bond, so every step is one plain product.
//
// Halves are dealt to lanes; a lane works through its halves one after the other in a workspace of its own.
#include "kernels/tt_cores.h"

#include "kernels/cpu/gemm.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/transpose.h"
#include "kernels/cpu/workspace.h"
#include "kernels/thread_pool.h"

namespace comera::kernels::COMERA_CPU {
namespace {

constexpr std::int64_t largest_lanes = 8;

// One half: cores first .. first + d - 1 of the matrix.
struct Half {
  const TtMatrix& t;
  bool is_right;
  int d, first;
  std::int64_t lead;

  Half(const TtMatrix& t, bool is_right) : t(t), is_right(is_right), d(t.d), first(is_right ? t.d : 0), lead(is_right ? t.ranks[t.d] : 1) {}

  std::int64_t rows(int i) const { return lead * product_of(t.modes, first, first + i); }  // of the product of i cores
  std::int64_t bond(int i) const { return t.ranks[first + i]; }                            // its columns
  std::int64_t mode(int i) const { return t.modes[first + i]; }                            // of core i
  std::int64_t core_size(int i) const { return bond(i) * mode(i) * bond(i + 1); }
  const float* core(int i) const { return f32(t.cores[first + i]); }
  const float* diagonal(int i) const { return first + i < 2 * d - 1 ? f32(t.diagonals[first + i]) : nullptr; }
  float* d_core(int i) const { return f32(t.d_cores[first + i]); }
  float* d_diagonal(int i) const { return first + i < 2 * d - 1 ? f32(t.d_diagonals[first + i]) : nullptr; }
};

float masked(float value, double threshold) { return value > threshold ? value : 0; }

// The core times its masked diagonal.
void mask_core(const Half& h, int i, float* out) {
  const float *core = h.core(i), *diagonal = h.diagonal(i);
  const std::int64_t rows = h.bond(i) * h.mode(i), columns = h.bond(i + 1);
  if (!diagonal) return copy_block(1, rows * columns, core, 0, out, 0);
  for (std::int64_t j = 0; j < columns; ++j) {
    const float factor = masked(diagonal[j], h.t.threshold);
    for (std::int64_t r = 0; r < rows; ++r) out[r * columns + j] = core[r * columns + j] * factor;
  }
}

// What a half needs: masked cores and partial products; the backward also their gradients.
struct HalfMemory {
  float* core[max_cores] = {};
  float* partial[max_cores] = {};  // partial[i]: product of the first i cores, [rows(i), bond(i)]; partial[1] is the first core itself
  float* d_partial[2] = {};        // gradients of two neighbours, in turn
  float* d_core = nullptr;
  float* transposed = nullptr;  // a masked core

  HalfMemory(const Half& h, bool backward, Workspace& workspace) {
    std::int64_t largest_core = 0;
    for (int i = 0; i < h.d; ++i) {
      core[i] = workspace.floats(h.core_size(i));
      largest_core = max(largest_core, h.core_size(i));
    }
    std::int64_t largest_partial = 0;
    for (int i = 1; i <= h.d; ++i) {
      partial[i] = workspace.floats(h.rows(i) * h.bond(i));
      largest_partial = max(largest_partial, h.rows(i) * h.bond(i));
    }
    if (!backward) return;
    for (float*& d : d_partial) d = workspace.floats(largest_partial);
    d_core = workspace.floats(largest_core);
    transposed = workspace.floats(largest_core);
  }
};

// Masked cores, and the partial products of the first 1 .. last cores.
void contract(const Half& h, const HalfMemory& memory, int last) {
  for (int i = 0; i < h.d; ++i) mask_core(h, i, memory.core[i]);
  for (int i = 1; i <= last; ++i) {
    const std::int64_t rows = i == 1 ? h.lead : h.rows(i - 1), inner = h.bond(i - 1), columns = h.mode(i - 1) * h.bond(i);
    if (i == 1) {
      copy_block(1, h.core_size(0), memory.core[0], 0, memory.partial[1], 0);  // [lead, mode, bond], the lead being the core's own first index
    } else {
      SmallGemm({rows, columns, inner, inner, columns, columns})(memory.partial[i - 1], memory.core[i - 1], memory.partial[i]);
    }
  }
}

void zero_rows(std::int64_t rows, std::int64_t columns, float* out, std::int64_t ld) {
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) out[i * ld + j] = 0;
}

void merge_half(const Half& h, Workspace workspace) {
  const HalfMemory memory(h, false, workspace);
  contract(h, memory, h.d);
  const std::int64_t rank = h.t.ranks[h.d], padding = padded_rank(rank) - rank;
  if (h.is_right) {
    const std::int64_t columns = product_of(h.t.modes, h.d, 2 * h.d);
    copy_block(rank, columns, memory.partial[h.d], columns, f32(h.t.right), columns);
    zero_rows(padding, columns, f32(h.t.right) + rank * columns, columns);
  } else {
    copy_block(h.rows(h.d), rank, memory.partial[h.d], rank, f32(h.t.left), h.t.ld_left);
    zero_rows(h.rows(h.d), padding, f32(h.t.left) + rank, h.t.ld_left);
  }
}

// From the gradient of a masked core to those of the core and of its diagonal.
void unmask_gradient(const Half& h, int i, const float* gradient) {
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

void merge_half_backward(const Half& h, Workspace workspace) {
  const HalfMemory memory(h, true, workspace);
  contract(h, memory, h.d - 1);
  float* d_partial = memory.d_partial[0];
  float* d_before = memory.d_partial[1];
  const std::int64_t rank = h.t.ranks[h.d];
  if (h.is_right) {
    copy_block(1, h.rows(h.d), f32(h.t.d_right), 0, d_partial, 0);
  } else {
    copy_block(h.rows(h.d), rank, f32(h.t.d_left), h.t.ld_left, d_partial, rank);
  }
  for (int i = h.d; i >= 2; --i) {
    const std::int64_t rows = h.rows(i - 1), inner = h.bond(i - 1), columns = h.mode(i - 1) * h.bond(i);
    SmallGemm({inner, columns, rows, inner, columns, columns, false, true})(memory.partial[i - 1], d_partial, memory.d_core);
    unmask_gradient(h, i - 1, memory.d_core);
    transpose(inner, columns, memory.core[i - 1], columns, memory.transposed, inner);
    SmallGemm({rows, inner, columns, columns, inner, inner})(d_partial, memory.transposed, d_before);
    float* const done = d_partial;
    d_partial = d_before;
    d_before = done;
  }
  unmask_gradient(h, 0, d_partial);
}

std::size_t half_bytes(const Half& h, bool backward) {
  Workspace counter(nullptr);
  const HalfMemory memory(h, backward, counter);
  return counter.used();
}

std::size_t lane_bytes(const TtMatrix* matrices, int count, bool backward) {
  std::size_t most = 0;
  for (int i = 0; i < count; ++i)
    for (bool is_right : {false, true}) most = max(most, half_bytes(Half(matrices[i], is_right), backward));
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
void for_each_half(const Context& context, const TtMatrix* matrices, int count, bool backward, Run run) {
  const std::int64_t lanes = lanes_of(count);
  const std::size_t bytes = lane_bytes(matrices, count, backward);
  parallel_for(context, lanes, [&](std::int64_t lane) {
    char* memory = static_cast<char*>(context.workspace) + static_cast<std::size_t>(lane) * bytes;
    for (std::int64_t half = lane; half < 2 * count; half += lanes) run(Half(matrices[half / 2], half % 2 != 0), Workspace(memory));
  });
}

Status run_merge(const Context& context, const TtMerge& a) {
  if (context.dtype != DType::f32) return Status::unsupported_dtype;
  if (context.workspace_bytes < merge_workspace(context, a)) return Status::workspace_too_small;
  for_each_half(context, a.matrices, a.count, false, [](const Half& h, Workspace workspace) { merge_half(h, workspace); });
  return Status::ok;
}

Status run_merge_backward(const Context& context, const TtMergeBackward& a) {
  if (context.dtype != DType::f32) return Status::unsupported_dtype;
  if (context.workspace_bytes < merge_backward_workspace(context, a)) return Status::workspace_too_small;
  for_each_half(context, a.matrices, a.count, true, [](const Half& h, Workspace workspace) { merge_half_backward(h, workspace); });
  return Status::ok;
}

}  // namespace

void add_tt_cores(Backend& b) {
  b.tt_merge = {"tt_merge", run_merge, merge_workspace};
  b.tt_merge_backward = {"tt_merge_backward", run_merge_backward, merge_backward_workspace};
}

}  // namespace comera::kernels::COMERA_CPU
