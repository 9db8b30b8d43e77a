// Look-up in a TTM table from its left and right factor, and the gradients of the factors. Equal ids are grouped first.
// A row is one small product (n_left x r)(r x n_right). Each output row belongs to one tile, which adds its terms in
// the order of ids.
#include "kernels/ttm_embedding.h"

#include "kernels/cpu/common/block_product.h"
#include "kernels/cpu/common/id_runs.h"
#include "kernels/cpu/common/transpose.h"
#include "kernels/cpu/ops.h"
#include "kernels/host/thread_pool.h"

namespace comera::kernels::COMERA_CPU {
namespace {

constexpr std::int64_t positions_of_tile = 64;  // forward: sorted ids per tile
constexpr std::int64_t runs_of_tile = 8;
constexpr std::int64_t fold_columns = 256;

// Sizes of a row's product and offsets of its factors.
struct RowShape {
  std::int64_t left, right, rank, columns, right_rows, rows;
  explicit RowShape(const TtmTable& t)
      : left(left_columns(t)),
        right(right_columns(t)),
        rank(t.ranks[t.cut]),
        columns(left * right),
        right_rows(kernels::right_rows(t)),
        rows(left_rows(t) * right_rows) {}
  std::int64_t left_at(std::int64_t id) const { return id / right_rows * left * rank; }
  std::int64_t right_at(std::int64_t id) const { return id % right_rows * rank * right; }
};

// Writes a row's block to all positions with its id.
struct ToPositions {
  Element* y;
  const std::int32_t* positions;
  std::int64_t count, columns, ld;
  bool accumulate;
  template <class Lanes>
  F start(std::int64_t, std::int64_t, Lanes) const {
    return zero();
  }
  template <class Lanes>
  void finish(std::int64_t i, std::int64_t j, F value, Lanes lanes) const {
    for (std::int64_t p = 0; p < count; ++p) {
      Element* at = y + positions[p] * columns + i * ld + j;
      store(at, accumulate ? load(at, lanes) + value : value, lanes);
    }
  }
};

template <class Result>
void row_product(const TtmTable& t, const RowShape& s, std::int64_t id, const Result& result) {
  const OneBlock<Element> factors{elements(t.left) + s.left_at(id), elements(t.right) + s.right_at(id)};
  block_product({s.left, s.right, s.rank, s.rank, 1, s.right}, factors, result);
}

// ---- forward

struct ForwardMemory {
  Workspace workspace;
  IdRuns runs;
  std::int32_t* run_of_position = nullptr;  // for bags of several ids: rows are computed separately, then summed
  float* rows = nullptr;
  ForwardMemory(void* memory, const TtmForward& a) : workspace(memory), runs(workspace, a.bags) {
    if (!a.bags.offsets && a.bags.bags == a.bags.ids) return;
    run_of_position = workspace.ints(a.bags.ids);
    rows = workspace.floats(a.bags.ids * RowShape(*a.table).columns);
  }
};

std::size_t forward_workspace(const Context&, const TtmForward& a) {
  return ForwardMemory(nullptr, a).workspace.used();
}

// Writes directly to y. If a run spans several tiles, each tile computes its row.
void forward_look_ups(const Context& context, const TtmForward& a, const RowShape& s, const IdRuns& runs) {
  parallel_for(context, tiles_of(a.bags.ids, positions_of_tile), [&](std::int64_t tile) {
    const std::int64_t last = min(a.bags.ids, (tile + 1) * positions_of_tile);
    for (std::int64_t begin = tile * positions_of_tile, end; begin < last; begin = end) {
      const std::int32_t id = a.bags.id[runs.order[begin]];
      for (end = begin + 1; end < last && a.bags.id[runs.order[end]] == id;) ++end;
      row_product(*a.table, s, id,
                  ToPositions{elements(a.y), runs.order + begin, end - begin, s.columns, s.right, a.accumulate});
    }
  });
}

void sum_bag(const TtmForward& a, const RowShape& s, const ForwardMemory& memory, std::int64_t bag) {
  Element* y = elements(a.y) + bag * s.columns;
  sweep(0, s.columns, [&](std::int64_t j, auto lanes) {
    F total = a.accumulate ? load(y + j, lanes) : zero();
    for (std::int64_t i = a.bags.offsets[bag]; i < a.bags.offsets[bag + 1]; ++i) {
      const F row = load(memory.rows + memory.run_of_position[i] * s.columns + j, lanes);
      total = a.bags.weights ? fma(set(a.bags.weights[i]), row, total) : total + row;
    }
    store(y + j, total, lanes);
  });
}

void forward_bags(const Context& context, const TtmForward& a, const RowShape& s, const ForwardMemory& memory) {
  const IdRuns& runs = memory.runs;
  parallel_for(context, tiles_of(runs.count, runs_of_tile), [&](std::int64_t tile) {
    for (std::int64_t r = tile * runs_of_tile; r < min(runs.count, (tile + 1) * runs_of_tile); ++r) {
      row_product(*a.table, s, runs.id(a.bags, r), BlockResult{memory.rows + r * s.columns, s.right, false});
      for (std::int64_t i = runs.start[r]; i < runs.start[r + 1]; ++i)
        memory.run_of_position[runs.order[i]] = static_cast<std::int32_t>(r);
    }
  });
  parallel_for(context, a.bags.bags, [&](std::int64_t bag) { sum_bag(a, s, memory, bag); });
}

Status run(const Context& context, const TtmForward& a) {
  if (context.dtype != element_type) return Status::unsupported_dtype;
  if (context.workspace_bytes < forward_workspace(context, a)) return Status::workspace_too_small;
  const RowShape s(*a.table);
  if (!ids_in_range(a.bags, s.rows)) return Status::unsupported_shape;
  ForwardMemory memory(context.workspace, a);
  memory.runs.sort(a.bags, s.rows);
  if (a.bags.offsets)
    forward_bags(context, a, s, memory);
  else
    forward_look_ups(context, a, s, memory.runs);
  return Status::ok;
}

// ---- backward

// Returns true if every run has a row of sums. Else a run of one position uses its gradient as it is.
bool folds_all(const TtmBackward& a) { return a.bags.weights || !__is_same(Element, float); }

struct BackwardMemory {
  Workspace workspace;
  IdRuns runs;
  std::int32_t* bag;          // of each position
  std::int32_t* fold;         // of each run: its row of `folded`; -1: one position, float and without weight
  std::int32_t* left_start;   // group l of runs with the same left row: left_start[l] .. left_start[l + 1] - 1
  std::int32_t* by_right;     // runs sorted by their right row
  std::int32_t* right_start;  // groups of by_right
  std::int32_t* right_group;  // of each run
  float *folded, *right_transposed;
  BackwardMemory(void* memory, const TtmBackward& a) : workspace(memory), runs(workspace, a.bags) {
    const RowShape s(*a.table);
    const std::int64_t ids = a.bags.ids;
    bag = workspace.ints(ids), fold = workspace.ints(ids), left_start = workspace.ints(ids + 1),
    by_right = workspace.ints(ids);
    right_start = workspace.ints(ids + 1), right_group = workspace.ints(ids);
    folded = workspace.floats((folds_all(a) ? ids : ids / 2) * s.columns);
    right_transposed = workspace.floats(min(ids, s.right_rows) * s.rank * s.right);
  }
};

std::size_t backward_workspace(const Context&, const TtmBackward& a) {
  return BackwardMemory(nullptr, a).workspace.used();
}

// Fills `start` with the first index of each group of equal key(i), i in [0, count). Returns the number of groups.
template <class Key>
std::int64_t group(std::int64_t count, std::int32_t* start, Key key) {
  std::int64_t groups = 0;
  for (std::int64_t i = 0; i < count; ++i)
    if (i == 0 || key(i) != key(i - 1)) start[groups++] = static_cast<std::int32_t>(i);
  start[groups] = static_cast<std::int32_t>(count);
  return groups;
}

class Backward {
 public:
  Backward(const Context& context, const TtmBackward& a)
      : context_(context), a_(a), s_(*a.table), m_(context.workspace, a) {}

  void run() {
    sort();
    fold();
    parallel_for(context_, right_groups_, [&](std::int64_t g) { transpose_right(g); });
    parallel_for(context_, left_groups_, [&](std::int64_t g) { left_gradient(g); });
    parallel_for(context_, right_groups_, [&](std::int64_t g) { right_gradient(g); });
  }

 private:
  std::int64_t id(std::int64_t run) const { return m_.runs.id(a_.bags, run); }
  std::int64_t right_row(std::int64_t run) const { return id(run) % s_.right_rows; }
  std::int64_t left_row(std::int64_t run) const { return id(run) / s_.right_rows; }
  const Element* dy_of(std::int64_t sorted) const {
    return elements(a_.dy) + m_.bag[m_.runs.order[sorted]] * s_.columns;
  }
  // The summed gradient of a run's row.
  const float* gradient(std::int64_t run) const {
    if (m_.fold[run] >= 0) return m_.folded + m_.fold[run] * s_.columns;
    return f32(static_cast<const void*>(dy_of(m_.runs.start[run])));
  }

  void sort() {
    fill_bags(a_.bags, m_.bag);
    m_.runs.sort(a_.bags, s_.rows);
    const std::int64_t runs = m_.runs.count;
    std::int32_t folds = 0;
    for (std::int64_t r = 0; r < runs; ++r)
      m_.fold[r] = folds_all(a_) || m_.runs.start[r + 1] - m_.runs.start[r] > 1 ? folds++ : -1;
    left_groups_ = group(runs, m_.left_start, [&](std::int64_t r) { return left_row(r); });
    stable_order(runs, s_.right_rows, m_.by_right, m_.runs.spare, [&](std::int32_t r) { return right_row(r); });
    right_groups_ = group(runs, m_.right_start, [&](std::int64_t i) { return right_row(m_.by_right[i]); });
    for (std::int64_t g = 0; g < right_groups_; ++g)
      for (std::int64_t i = m_.right_start[g]; i < m_.right_start[g + 1]; ++i)
        m_.right_group[m_.by_right[i]] = static_cast<std::int32_t>(g);
  }

  // Sums dy of equal ids in order of position, tile by tile of runs and columns.
  void fold() {
    const std::int64_t across = tiles_of(s_.columns, fold_columns);
    parallel_for(context_, tiles_of(m_.runs.count, runs_of_tile) * across, [&](std::int64_t tile) {
      const std::int64_t first = tile / across * runs_of_tile, column = tile % across * fold_columns;
      for (std::int64_t r = first; r < min(m_.runs.count, first + runs_of_tile); ++r)
        if (m_.fold[r] >= 0) fold_run(r, column, min(s_.columns, column + fold_columns));
    });
  }
  void fold_run(std::int64_t run, std::int64_t begin, std::int64_t end) {
    float* sum = m_.folded + m_.fold[run] * s_.columns;
    for (std::int64_t i = m_.runs.start[run]; i < m_.runs.start[run + 1]; ++i) {
      const Element* dy = dy_of(i);
      const bool start = i == m_.runs.start[run];
      const F weight = set(a_.bags.weights ? a_.bags.weights[m_.runs.order[i]] : 1.0F);
      sweep(begin, end, [=](std::int64_t j, auto lanes) {
        const F x = load(dy + j, lanes) * weight;
        store(sum + j, start ? x : load(sum + j, lanes) + x, lanes);
      });
    }
  }

  void transpose_right(std::int64_t g) {
    const Element* right = elements(a_.table->right) + s_.right_at(id(m_.by_right[m_.right_start[g]]));
    transpose(s_.rank, s_.right, right, s_.right, m_.right_transposed + g * s_.rank * s_.right, s_.rank);
  }

  // d_A1[p] += sum over the ids of p of g A2[q]^T
  void left_gradient(std::int64_t g) {
    struct Items {
      const Backward& owner;
      std::int64_t first, last;
      std::int64_t count() const { return last - first; }
      const float* a(std::int64_t i) const { return owner.gradient(first + i); }
      const float* b(std::int64_t i) const {
        return owner.m_.right_transposed + owner.m_.right_group[first + i] * owner.s_.rank * owner.s_.right;
      }
    };
    const Items items{*this, m_.left_start[g], m_.left_start[g + 1]};
    float* result = f32(a_.d_left) + s_.left_at(id(items.first));
    block_product({s_.left, s_.rank, s_.right, s_.right, 1, s_.rank}, items, BlockResult{result, s_.rank, true});
  }

  // d_A2[q] += sum over the ids of q of A1[p]^T g
  void right_gradient(std::int64_t g) {
    struct Items {
      const Backward& owner;
      const std::int32_t* runs;
      std::int64_t size;
      std::int64_t count() const { return size; }
      const Element* a(std::int64_t i) const {
        return elements(owner.a_.table->left) + owner.s_.left_at(owner.id(runs[i]));
      }
      const float* b(std::int64_t i) const { return owner.gradient(runs[i]); }
    };
    const Items items{*this, m_.by_right + m_.right_start[g], m_.right_start[g + 1] - m_.right_start[g]};
    float* result = f32(a_.d_right) + s_.right_at(id(items.runs[0]));
    block_product({s_.rank, s_.right, s_.left, 1, s_.rank, s_.right}, items, BlockResult{result, s_.right, true});
  }

  const Context& context_;
  const TtmBackward& a_;
  RowShape s_;
  BackwardMemory m_;
  std::int64_t left_groups_ = 0, right_groups_ = 0;
};

Status run(const Context& context, const TtmBackward& a) {
  if (context.dtype != element_type) return Status::unsupported_dtype;
  if (context.workspace_bytes < backward_workspace(context, a)) return Status::workspace_too_small;
  if (!ids_in_range(a.bags, RowShape(*a.table).rows)) return Status::unsupported_shape;
  Backward(context, a).run();
  return Status::ok;
}

}  // namespace

void bind(Op<TtmForward>& op) { op.run = run, op.workspace_bytes = forward_workspace; }
void bind(Op<TtmBackward>& op) { op.run = run, op.workspace_bytes = backward_workspace; }

}  // namespace comera::kernels::COMERA_CPU
