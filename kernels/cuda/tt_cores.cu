// Merges TT cores to left and right factors, with order, gauge and rank padding; and the gradients.
#include "kernels/cuda/chains/chain_steps.h"
#include "kernels/cuda/ops.h"
#include "kernels/tt_cores.h"

namespace comera::kernels::cuda {
namespace {

constexpr unsigned threads = 256;

// Position of an element of a chain's product: rows of A in the order of the TT, columns of B without the gauge's.
struct TtPlace {
  static constexpr int together = 8;  // indices of a find() that registers allow

  struct Spot {
    int row = 0, column = 0;
    COMERA_DEVICE Spot operator+(const Spot& other) const { return {row + other.row, column + other.column}; }
  };

  const std::int32_t *order = nullptr, *stored = nullptr;  // stored[s]: the column of B that is column s of the core
  int ld = 1;
  Divisor columns;  // rank of A, stored columns of B

  COMERA_DEVICE Spot split(int at) const {
    const int column = columns.split(at);
    return {at, column};
  }
  COMERA_DEVICE std::int64_t index(const Spot& spot) const {
    const int row = order ? order[spot.row] : spot.row, column = stored ? stored[spot.column] : spot.column;
    return static_cast<std::int64_t>(row) * ld + column;
  }
  template <int count>
  COMERA_DEVICE void find(int (&at)[count], std::int64_t (&to)[count]) const {
#pragma unroll
    for (int j = 0; j < count; ++j) to[j] = index(split(at[j]));
  }
};

// Lists the columns of B that the core stores, in rising order.
struct GaugeItem {
  const std::int32_t* gauge = nullptr;
  std::int32_t* stored = nullptr;
  int rank = 0, columns = 0;
  unsigned blocks = 0, first_block = 0;
};

template <int capacity>
__global__ void find_stored_columns(const Batch<GaugeItem, capacity> __grid_constant__ batch) {
  begin_kernel();
  const GaugeItem& g = batch.item[item_of_block(batch)];
  const int column = static_cast<int>((blockIdx.x - g.first_block) * threads + threadIdx.x);
  if (column >= g.columns) return;
  int before = 0;
  for (int r = 0; r < g.rank; ++r) {
    if (g.gauge[r] == column) return;
    before += g.gauge[r] < column;
  }
  g.stored[column - before] = column;
}

// Fills elements that no core provides: zeros that pad the rank, unit columns of the gauge.
template <class T>
struct FrameItem {
  T *left = nullptr, *right = nullptr;
  const std::int32_t* gauge = nullptr;
  std::int64_t ld = 0;
  int rows = 0, columns = 0, rank = 0, padding = 0;
  unsigned blocks = 0, first_block = 0;

  COMERA_DEVICE std::int64_t left_count() const { return static_cast<std::int64_t>(rows) * padding; }
  COMERA_DEVICE std::int64_t right_count() const { return static_cast<std::int64_t>(columns) * padding; }
  COMERA_DEVICE std::int64_t unit_count() const { return gauge ? static_cast<std::int64_t>(rank) * rank : 0; }
  COMERA_DEVICE void write(std::int64_t i) const {
    if (i < left_count()) {
      left[i / padding * ld + rank + i % padding] = to_element<T>(0);
    } else if (i -= left_count(); i < right_count()) {
      right[static_cast<std::int64_t>(rank) * columns + i] = to_element<T>(0);
    } else if (i -= right_count(); i < unit_count()) {
      right[i / rank * columns + gauge[i % rank]] = to_element<T>(i / rank == i % rank ? 1 : 0);
    }
  }
};

template <class T, int capacity>
__global__ void frame_factors(const Batch<FrameItem<T>, capacity> __grid_constant__ batch) {
  begin_kernel();
  const FrameItem<T>& item = batch.item[item_of_block(batch)];
  item.write(static_cast<std::int64_t>(blockIdx.x - item.first_block) * threads + threadIdx.x);
}

void add_cores(Factor<TtPlace>& h, const TtMatrix& t, int first, int count) {
  h.count = count, h.threshold = t.threshold;
  for (int i = 0; i <= count; ++i) h.rank[i] = t.ranks[first + i];
  for (int i = 0; i < count; ++i) {
    const int k = first + i;
    const bool bond = k + 1 < t.d + t.e;
    h.size[i] = t.modes[k], h.core[i] = static_cast<const float*>(t.cores[k]),
    h.d_core[i] = static_cast<float*>(t.d_cores[k]);
    h.diagonal[i] = bond ? static_cast<const float*>(t.diagonals[k]) : nullptr;
    h.d_diagonal[i] = h.diagonal[i] ? static_cast<float*>(t.d_diagonals[k]) : nullptr;
  }
}

Factor<TtPlace> left_factor(const TtMatrix& t) {
  Factor<TtPlace> h;
  add_cores(h, t, 0, t.d);
  h.factor = t.left, h.d_factor = static_cast<const float*>(t.d_left);
  h.place.order = t.order, h.place.ld = static_cast<int>(t.ld_left),
  h.place.columns = Divisor(static_cast<int>(t.ranks[t.d]));
  return h;
}

Factor<TtPlace> right_factor(const TtMatrix& t, std::int32_t* stored) {
  Factor<TtPlace> h;
  add_cores(h, t, t.d, t.e);
  h.factor = t.right, h.d_factor = static_cast<const float*>(t.d_right);
  if (t.gauge) h.place.stored = stored;
  h.place.columns = Divisor(static_cast<int>(stored_columns_of(t))), h.place.ld = static_cast<int>(columns_of(t));
  return h;
}

// The left and right factors of all matrices and their workspace. The columns of a gauge are found again at each call.
struct Factors {
  std::vector<Factor<TtPlace>> factors;
  std::vector<GaugeItem> gauges;
  std::vector<FactorSteps<TtPlace>> steps;
  Parts parts;

  Factors(const TtMatrix* matrices, int count, bool backward, void* workspace) : parts(workspace) {
    for (int i = 0; i < count; ++i) {
      const TtMatrix& t = matrices[i];
      std::int32_t* const stored = t.e == 1 ? parts.take<std::int32_t>(stored_columns_of(t)) : nullptr;
      factors.push_back(left_factor(t));
      factors.push_back(right_factor(t, stored));
      if (!t.gauge) continue;
      const int columns = static_cast<int>(columns_of(t));
      gauges.push_back({t.gauge, stored, static_cast<int>(t.ranks[t.d]), columns,
                        static_cast<unsigned>(blocks_for(columns, threads))});
    }
    for (const Factor<TtPlace>& h : factors) steps.emplace_back(h, backward, parts);
  }
  Status find_columns(const Context& context) const {
    return launch_batches(context, gauges, threads, find_stored_columns<few_items>,
                          find_stored_columns<many_items<GaugeItem>>);
  }
};

template <class T>
Status frame(const Context& context, const TtMerge& a) {
  std::vector<FrameItem<T>> items;
  for (int i = 0; i < a.count; ++i) {
    const TtMatrix& t = a.matrices[i];
    FrameItem<T> f;
    f.left = static_cast<T*>(t.left), f.right = static_cast<T*>(t.right), f.gauge = t.gauge, f.ld = t.ld_left;
    f.rows = static_cast<int>(rows_of(t)), f.columns = static_cast<int>(columns_of(t)),
    f.rank = static_cast<int>(t.ranks[t.d]);
    f.padding = static_cast<int>(padded_rank(f.rank)) - f.rank;
    f.blocks = static_cast<unsigned>(blocks_for(f.left_count() + f.right_count() + f.unit_count(), threads));
    items.push_back(f);
  }
  return launch_batches(context, items, threads, frame_factors<T, few_items>,
                        frame_factors<T, many_items<FrameItem<T>>>);
}

std::size_t workspace_bytes(const Context&, const TtMerge& a) {
  return Factors(a.matrices, a.count, false, nullptr).parts.bytes();
}
std::size_t workspace_bytes(const Context&, const TtMergeBackward& a) {
  return Factors(a.matrices, a.count, true, nullptr).parts.bytes();
}

Status run(const Context& context, const TtMerge& a) {
  const Factors all(a.matrices, a.count, false, context.workspace);
  Status status = all.find_columns(context);
  return with_element(context, [&](auto element) {
    using T = decltype(element);
    if (status == Status::ok) status = frame<T>(context, a);
    return status == Status::ok ? merge_factors<T>(context, all.steps) : status;
  });
}

Status run(const Context& context, const TtMergeBackward& a) {
  const Factors all(a.matrices, a.count, true, context.workspace);
  const Status status = all.find_columns(context);
  return status == Status::ok ? merge_factors_backward(context, all.steps) : status;
}

}  // namespace

void bind(Op<TtMerge>& op) { op.run = run, op.workspace_bytes = workspace_bytes; }
void bind(Op<TtMergeBackward>& op) { op.run = run, op.workspace_bytes = workspace_bytes; }

}  // namespace comera::kernels::cuda
