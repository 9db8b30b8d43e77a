// Merges TTM cores to left and right factors; and the gradients.
#include "kernels/cuda/chains/chain_steps.h"
#include "kernels/cuda/ops.h"
#include "kernels/ttm_merge.h"

namespace comera::kernels::cuda {
namespace {

// Maps (open bond, m_1, n_1, m_2, n_2, ..., last bond) to (rows, columns, rank) for the left factor and to (rows,
// rank, columns) for the right one. One of the two bonds has size 1 in each.
struct TtmPlace {
  static constexpr int together = 8;  // indices of a find() that registers allow

  int count = 0, open_rank = 1, columns = 1;
  Divisor last_rank, m[max_cores], n[max_cores];

  using Spot = std::int64_t;
  COMERA_DEVICE Spot index(Spot at) const { return at; }
  COMERA_DEVICE Spot split(int at) const {
    int one[] = {at};
    std::int64_t to[1];
    find(one, to);
    return to[0];
  }
  // The place is a sum of digits times strides. It has 31 bits (indices_fit).
  template <int some>
  COMERA_DEVICE void find(int (&at)[some], std::int64_t (&to)[some]) const {
    int place[some], column_stride = last_rank.value(), row_stride = open_rank * columns * last_rank.value();
#pragma unroll
    for (int j = 0; j < some; ++j) place[j] = last_rank.split(at[j]);
#pragma unroll 1
    for (int k = count - 1; k >= 0; --k) {
#pragma unroll
      for (int j = 0; j < some; ++j) {
        place[j] += column_stride * n[k].split(at[j]);
        place[j] += row_stride * m[k].split(at[j]);
      }
      column_stride *= n[k].value(), row_stride *= m[k].value();
    }
#pragma unroll
    for (int j = 0; j < some; ++j) to[j] = place[j] + at[j] * columns * last_rank.value();
  }
};

Factor<TtmPlace> factor_of(const TtmTable& t, int first, int last) {
  Factor<TtmPlace> h;
  h.count = last - first, h.threshold = t.threshold;
  h.least_slice = 64, h.rows_of_core_tile = 128;  // smaller than for many matrices: a table has two factors
  for (int i = 0; i <= h.count; ++i) h.rank[i] = t.ranks[first + i];
  for (int i = 0; i < h.count; ++i) {
    const int k = first + i;
    h.size[i] = t.row_modes[k] * t.column_modes[k], h.core[i] = static_cast<const float*>(t.cores[k]);
    h.d_core[i] = static_cast<float*>(t.d_cores[k]);
    h.diagonal[i] = k + 1 < t.d ? static_cast<const float*>(t.diagonals[k]) : nullptr;
    h.d_diagonal[i] = h.diagonal[i] ? static_cast<float*>(t.d_diagonals[k]) : nullptr;
    h.place.m[i] = Divisor(static_cast<int>(t.row_modes[k])),
    h.place.n[i] = Divisor(static_cast<int>(t.column_modes[k]));
  }
  h.place.count = h.count, h.place.open_rank = static_cast<int>(h.rank[0]),
  h.place.last_rank = Divisor(static_cast<int>(h.rank[h.count]));
  h.place.columns = static_cast<int>(product_of(t.column_modes, first, last));
  return h;
}

// The right factor of a table with one core is 1.
struct Factors {
  std::vector<Factor<TtmPlace>> factors;
  std::vector<FactorSteps<TtmPlace>> steps;
  Parts parts;

  Factors(const TtmTable& t, bool backward, void* workspace) : parts(workspace) {
    factors.push_back(factor_of(t, 0, t.cut));
    factors.back().factor = t.left, factors.back().d_factor = static_cast<const float*>(t.d_left);
    if (t.cut < t.d) {
      factors.push_back(factor_of(t, t.cut, t.d));
      factors.back().factor = t.right, factors.back().d_factor = static_cast<const float*>(t.d_right);
    }
    for (const Factor<TtmPlace>& h : factors) steps.emplace_back(h, backward, parts);
  }
};

template <class T>
__global__ void write_one(T* to) {
  begin_kernel();
  *to = to_element<T>(1);
}

std::size_t workspace_bytes(const Context&, const TtmMerge& a) {
  return Factors(*a.table, false, nullptr).parts.bytes();
}
std::size_t workspace_bytes(const Context&, const TtmMergeBackward& a) {
  return Factors(*a.table, true, nullptr).parts.bytes();
}

Status run(const Context& context, const TtmMerge& a) {
  return with_element(context, [&](auto element) {
    using T = decltype(element);
    const Status status = merge_factors<T>(context, Factors(*a.table, false, context.workspace).steps);
    if (status != Status::ok || a.table->cut < a.table->d) return status;
    return launch(context, {1, 1}, write_one<T>, static_cast<T*>(a.table->right));
  });
}

Status run(const Context& context, const TtmMergeBackward& a) {
  return merge_factors_backward(context, Factors(*a.table, true, context.workspace).steps);
}

}  // namespace

void bind(Op<TtmMerge>& op) { op.run = run, op.workspace_bytes = workspace_bytes; }
void bind(Op<TtmMergeBackward>& op) { op.run = run, op.workspace_bytes = workspace_bytes; }

}  // namespace comera::kernels::cuda
