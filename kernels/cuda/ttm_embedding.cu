// Look-up of TTM tables from their left and right factors, and the gradients of the factors.
#include "kernels/cuda/common/sorted_ids.h"
#include "kernels/cuda/ops.h"
#include "kernels/ttm_embedding.h"

namespace comera::kernels::cuda {
namespace {

constexpr unsigned row_threads = 256;
constexpr int ids_of_block = 8;

// Sizes of the two factors with 32-bit indices: A1 [p, left, rank], A2 [q, rank, right].
struct Shape {
  int left, right, rank, right_rows, rows;
  std::int64_t columns;

  explicit Shape(const TtmTable& t)
      : left(static_cast<int>(left_columns(t))),
        right(static_cast<int>(right_columns(t))),
        rank(static_cast<int>(t.ranks[t.cut])),
        right_rows(static_cast<int>(kernels::right_rows(t))),
        rows(static_cast<int>(left_rows(t) * kernels::right_rows(t))),
        columns(left_columns(t) * right_columns(t)) {}
};

bool fits(const TtmTable& t, const Bags& bags) {
  constexpr std::int64_t limit = (std::int64_t{1} << 31) - 1;
  return ids_fit(bags, left_rows(t) * right_rows(t)) && left_columns(t) * right_columns(t) <= limit &&
         left_elements(t) <= limit && right_elements(t) <= limit;
}

// Four entries of one column of a row, E[id][4 quad .. 4 quad + 3][j] = A1[p] A2[q]. Neighbouring threads read
// neighbouring elements of A2 and the same elements of A1.
constexpr int quad = 4;
COMERA_DEVICE int items_of_row(const Shape& s) { return (s.left + quad - 1) / quad * s.right; }

template <class T, bool wide>
COMERA_DEVICE void row_entries(const Shape& s, const T* left, const T* right, int id, int first, int j,
                               float (&sum)[quad]) {
  const T* a = left + static_cast<std::int64_t>(id / s.right_rows) * s.left * s.rank;
  const T* b = right + static_cast<std::int64_t>(id % s.right_rows) * s.rank * s.right + j;
  constexpr int step = wide ? 4 : 1;
  for (int l = 0; l < s.rank; l += step) {
    float factor[step], row[step];
    for (int u = 0; u < step; ++u) factor[u] = to_float(b[(l + u) * s.right]);
#pragma unroll
    for (int i = 0; i < quad; ++i) {
      if (first + i >= s.left) break;
      load_floats<step>(a + (first + i) * s.rank + l, row);
      for (int u = 0; u < step; ++u) sum[i] += row[u] * factor[u];
    }
  }
}

template <class T>
COMERA_DEVICE void write_entries(const Shape& s, const float (&value)[quad], int first, int j, bool accumulate,
                                 T* row) {
  for (int i = 0; i < quad && first + i < s.left; ++i) {
    T& entry = row[static_cast<std::int64_t>(first + i) * s.right + j];
    entry = to_element<T>(accumulate ? to_float(entry) + value[i] : value[i]);
  }
}

// Bags of one id: a block has eight sorted ids, computes each distinct id once and writes it to all its positions.
template <class T, bool wide>
__global__ void look_up_runs(const Shape s, int count, const std::int32_t* keys, const std::int32_t* order,
                             const T* left, const T* right, T* y, bool accumulate) {
  const int first_id = static_cast<int>(blockIdx.x) * ids_of_block, end = min(count, first_id + ids_of_block),
            items = items_of_row(s);
  for (int at = static_cast<int>(blockIdx.y * row_threads + threadIdx.x); at < (end - first_id) * items;
       at += static_cast<int>(gridDim.y * row_threads)) {
    const int i = first_id + at / items, item = at % items, id = keys[i], first = item / s.right * quad,
              j = item % s.right;
    if (i > first_id && keys[i - 1] == id) continue;
    float sum[quad] = {};
    if (id < s.rows)
      row_entries<T, wide>(s, left, right, id, first, j, sum);
    else
      for (float& x : sum) x = NAN;
    for (int k = i; k < end && keys[k] == id; ++k)
      write_entries(s, sum, first, j, accumulate, y + order[k] * s.columns);
  }
}

// Bags of several ids: the rows of a bag are added as they are computed.
template <class T, bool wide>
__global__ void look_up_bags(const Shape s, const Bags bags, const T* left, const T* right, T* y, bool accumulate) {
  const int items = items_of_row(s);
  for (std::int64_t b = blockIdx.x; b < bags.bags; b += gridDim.x)
    for (int item = static_cast<int>(threadIdx.x); item < items; item += row_threads) {
      const int first = item / s.right * quad, j = item % s.right;
      float total[quad] = {};
      for (std::int32_t i = bags.offsets[b]; i < bags.offsets[b + 1]; ++i) {
        float sum[quad] = {};
        const int id = key_of_id(bags.id[i], s.rows);
        if (id < s.rows) row_entries<T, wide>(s, left, right, id, first, j, sum);
        const float weight = weight_of(bags, i);
        for (int u = 0; u < quad; ++u) total[u] = id < s.rows ? fmaf(weight, sum[u], total[u]) : NAN;
      }
      write_entries(s, total, first, j, accumulate, y + b * s.columns);
    }
}

// Sort key of the runs by q. The first index of a run has the key q; all other indices, and ids outside the table,
// have the number of q's.
struct RightKey {
  const std::int32_t* keys;
  int rows, right_rows;
  COMERA_DEVICE int operator()(int s) const {
    const bool first = keys[s] < rows && (s == 0 || keys[s - 1] != keys[s]);
    return first ? keys[s] % right_rows : right_rows;
  }
};

// Tiles of 32 x 32 by 64 threads, 4 x 4 elements per thread.
constexpr int side = 32, pitch = side + 4;
constexpr unsigned tile_threads = 64;

struct Tile {
  float a[side][pitch], b[side][pitch];  // [inner][row], [inner][column]
};

// Each block computes one tile of dA1[p] += sum over the runs of p of dE A2[q]^T, or of dA2[q] += sum over the runs of
// q of A1[p]^T dE. The runs are processed in the order of their ids.
template <class T, bool of_left>
__global__ void half_gradient(const Shape s, int count, const std::int32_t* keys, const std::int32_t* right_keys,
                              const std::int32_t* right_order, const float* sums, const T* other, float* gradient) {
  __shared__ Tile tile;
  __shared__ int heads[tile_threads], votes_of_warp[2];
  const int rows = of_left ? s.left : s.rank, columns = of_left ? s.rank : s.right, inner = of_left ? s.right : s.left;
  const int across = (columns + side - 1) / side, m0 = static_cast<int>(blockIdx.y) / across * side,
            n0 = static_cast<int>(blockIdx.y) % across * side;
  const int row = static_cast<int>(blockIdx.x), t = static_cast<int>(threadIdx.x), x = t % 8 * 4, y = t / 8 * 4;
  const std::int64_t low = of_left ? static_cast<std::int64_t>(row) * s.right_rows : row,
                     high = low + (of_left ? s.right_rows : 1);
  const int first = keys_below(of_left ? keys : right_keys, count, low),
            last = keys_below(of_left ? keys : right_keys, count, high);
  float sum[4][4] = {};
  for (int window = first; window < last; window += tile_threads) {
    // finds the first indices of the runs that begin among the next 64
    const int at = window + t;
    const bool head = at < last && (!of_left || at == 0 || keys[at - 1] != keys[at]);
    const unsigned votes = __ballot_sync(full_warp, head);
    if (t % warp_size == 0) votes_of_warp[t / warp_size] = __popc(votes);
    __syncthreads();
    const int found = votes_of_warp[0] + votes_of_warp[1];
    if (head)
      heads[(t < warp_size ? 0 : votes_of_warp[0]) + __popc(votes & ((1u << (t % warp_size)) - 1))] =
          of_left ? at : right_order[at];
    __syncthreads();
    for (int h = 0; h < found; ++h) {
      const int index = heads[h], id = keys[index];
      const float* const g = sums + index * s.columns;
      const T* const o = other + (of_left ? static_cast<std::int64_t>(id % s.right_rows) * s.rank * s.right
                                          : static_cast<std::int64_t>(id / s.right_rows) * s.left * s.rank);
      for (int k0 = 0; k0 < inner; k0 += side) {
        const int depth = min(side, inner - k0);
        for (int e = t; e < side * side; e += tile_threads) {
          const int fast = e % side, slow = e / side;
          if (of_left) {  // dE [row, inner], A2 [column, inner]: both are read along the inner index
            tile.a[fast][slow] = m0 + slow < rows && fast < depth ? g[(m0 + slow) * s.right + k0 + fast] : 0.0f;
            tile.b[fast][slow] =
                n0 + slow < columns && fast < depth ? to_float(o[(n0 + slow) * s.right + k0 + fast]) : 0.0f;
          } else {  // A1 [inner, row], dE [inner, column]
            tile.a[slow][fast] =
                slow < depth && m0 + fast < rows ? to_float(o[(k0 + slow) * s.rank + m0 + fast]) : 0.0f;
            tile.b[slow][fast] = slow < depth && n0 + fast < columns ? g[(k0 + slow) * s.right + n0 + fast] : 0.0f;
          }
        }
        __syncthreads();
        for (int l = 0; l < depth; ++l) {
          float a[4], b[4];
          load_floats<4>(&tile.a[l][y], a);
          load_floats<4>(&tile.b[l][x], b);
#pragma unroll
          for (int i = 0; i < 4; ++i)
#pragma unroll
            for (int j = 0; j < 4; ++j) sum[i][j] += a[i] * b[j];
        }
        __syncthreads();
      }
    }
    __syncthreads();  // other threads may still read the heads of this window
  }
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j)
      if (m0 + y + i < rows && n0 + x + j < columns && first < last)
        gradient[(static_cast<std::int64_t>(row) * rows + m0 + y + i) * columns + n0 + x + j] += sum[i][j];
}

struct BackwardMemory : SortedIds {
  std::int32_t *right_keys, *right_order;
  float* sums;
  BackwardMemory(const TtmBackward& a, Parts& parts)
      : SortedIds(a.bags.ids, parts),
        right_keys(parts.take<std::int32_t>(a.bags.ids)),
        right_order(parts.take<std::int32_t>(a.bags.ids)),
        sums(parts.take<float>(a.bags.ids * left_columns(*a.table) * right_columns(*a.table))) {}
};

std::size_t workspace_bytes(const Context&, const TtmForward& a) {
  Parts parts;
  if (!a.bags.offsets) SortedIds(a.bags.ids, parts);
  return parts.bytes();
}
std::size_t workspace_bytes(const Context&, const TtmBackward& a) {
  Parts parts;
  BackwardMemory(a, parts);
  return parts.bytes();
}

template <class T, bool wide>
Status forward(const Context& context, const TtmForward& a, const Shape& s) {
  const TtmTable& t = *a.table;
  const auto *left = static_cast<const T*>(t.left), *right = static_cast<const T*>(t.right);
  T* const y = static_cast<T*>(a.y);
  if (a.bags.offsets)
    return launch(context, {grid_for(a.bags.bags, 1), row_threads}, look_up_bags<T, wide>, s, a.bags, left, right, y,
                  a.accumulate);
  Parts parts(context.workspace);
  const SortedIds memory(a.bags.ids, parts);
  const Status status = sort_keys(context, a.bags.ids, KeyOfId(a.bags, s.rows), memory.sort, memory.keys, memory.order);
  if (status != Status::ok) return status;
  const unsigned across =
      static_cast<unsigned>(blocks_for(std::int64_t{items_of_row(s)} * ids_of_block, std::int64_t{row_threads} * 8));
  const Launch where{{static_cast<unsigned>(blocks_for(a.bags.ids, ids_of_block)), across < 64 ? across : 64},
                     row_threads};
  return launch(context, where, look_up_runs<T, wide>, s, static_cast<int>(a.bags.ids), memory.keys, memory.order, left,
                right, y, a.accumulate);
}

template <class T>
Status half_gradients(const Context& context, const TtmBackward& a, const Shape& s, const BackwardMemory& memory) {
  const auto tiles = [](int rows, int columns) {
    return static_cast<unsigned>(blocks_for(rows, side) * blocks_for(columns, side));
  };
  const int count = static_cast<int>(a.bags.ids);
  const TtmTable& t = *a.table;
  const Status status = launch(context, {{static_cast<unsigned>(left_rows(t)), tiles(s.left, s.rank)}, tile_threads},
                               half_gradient<T, true>, s, count, memory.keys, memory.right_keys, memory.right_order,
                               memory.sums, static_cast<const T*>(t.right), static_cast<float*>(a.d_left));
  if (status != Status::ok) return status;
  return launch(context, {{static_cast<unsigned>(s.right_rows), tiles(s.rank, s.right)}, tile_threads},
                half_gradient<T, false>, s, count, memory.keys, memory.right_keys, memory.right_order, memory.sums,
                static_cast<const T*>(t.left), static_cast<float*>(a.d_right));
}

template <class T>
Status backward(const Context& context, const TtmBackward& a) {
  const Shape s(*a.table);
  Parts parts(context.workspace);
  const BackwardMemory memory(a, parts);
  Status status = sort_keys(context, a.bags.ids, KeyOfId(a.bags, s.rows), memory.sort, memory.keys, memory.order);
  const Runs runs{memory.keys, memory.order, static_cast<int>(a.bags.ids), s.rows, s.columns};
  if (status == Status::ok)
    status = fold_runs(context, runs, a.bags, static_cast<const T*>(a.dy), RunSums{memory.sums, s.columns}, true);
  const RightKey by_right{memory.keys, s.rows, s.right_rows};
  if (status == Status::ok)
    status = sort_keys(context, a.bags.ids, by_right, memory.sort, memory.right_keys, memory.right_order);
  return status == Status::ok ? half_gradients<T>(context, a, s, memory) : status;
}

Status run(const Context& context, const TtmForward& a) {
  if (!fits(*a.table, a.bags)) return Status::unsupported_shape;
  const Shape s(*a.table);
  return with_element(context, [&](auto element) {
    using T = decltype(element);
    const bool wide = s.rank % 4 == 0 && rows_are_aligned<T>(a.table->left, 0);
    return wide ? forward<T, true>(context, a, s) : forward<T, false>(context, a, s);
  });
}

Status run(const Context& context, const TtmBackward& a) {
  if (!fits(*a.table, a.bags)) return Status::unsupported_shape;
  if (a.bags.ids == 0) return Status::ok;
  return with_element(context, [&](auto element) { return backward<decltype(element)>(context, a); });
}

}  // namespace

void bind(Op<TtmForward>& op) { op.run = run, op.workspace_bytes = workspace_bytes; }
void bind(Op<TtmBackward>& op) { op.run = run, op.workspace_bytes = workspace_bytes; }

}  // namespace comera::kernels::cuda
