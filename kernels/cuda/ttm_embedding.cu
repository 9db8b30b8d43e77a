// Look-up of TTM tables from their left and right factors, and the gradients of the factors.
#include "kernels/cuda/common/eights.h"
#include "kernels/cuda/common/sorted_ids.h"
#include "kernels/cuda/common/tensor_tile.h"
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
  begin_kernel();
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
  begin_kernel();
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
    const int own = keys[s], before = keys[max(s - 1, 0)];  // both in any case, so that the loads overlap
    return own < rows && (s == 0 || before != own) ? own % right_rows : right_rows;
  }
};

// Warps of a block of half_gradient, and the pitch of their tiles.
template <class T>
constexpr int half_warps = sizeof(T) == 2 ? 8 : 4;
template <class T>
constexpr int half_pitch = warp_tile + lanes_of_vector<T>;
template <class T>
constexpr unsigned half_threads = half_warps<T>* warp_size;

constexpr int bf16_parts = 3;  // of a float

// A lane's part of 32 x 32 elements of row-major memory, loaded before the first use: four neighbours in every fourth
// row. In words: four floats or two pairs of bf16.
template <class From>
struct TileRows {
  static constexpr int high = warp_size / 8, count = warp_tile / high;
  using Words = Elements<unsigned, sizeof(From)>;
  Words row[count];
  const int first = static_cast<int>(threadIdx.x) % warp_size / 8,
            column = static_cast<int>(threadIdx.x) % warp_size % 8 * 4;

  // Zeros outside. `aligned`: vectors are, and end with `columns`.
  __device__ TileRows(const From* from, int ld, int rows, int columns, bool aligned) {
    from += first * ld + column;
    if (aligned) {
      const int end = column < columns ? rows : 0;
#pragma unroll
      for (int i = 0; i < count; ++i, from += high * ld)
        row[i] = first + i * high < end ? *reinterpret_cast<const Words*>(from) : Words{};
      return;
    }
#pragma unroll 1  // saves registers in the rare case; each step shifts the rows
    for (int i = 0; i < count; ++i, from += high * ld) {
      float x[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) x[j] = first + i * high < rows && column + j < columns ? to_float(from[j]) : 0.0f;
#pragma unroll
      for (int k = 0; k + 1 < count; ++k) row[k] = row[k + 1];
      store_floats<4>(x, reinterpret_cast<From*>(&row[count - 1]));
    }
  }

  // Writes rows 0 .. end - 1 to a tile. A float is the sum of bf16_parts numbers in bf16: its own rounding and those of
  // the rests. Writes one of them and keeps the rest; returns true if something is left.
  template <class T>
  __device__ bool put(T* to, int end) {
    bool is_rest = false;
#pragma unroll
    for (int i = 0; i < count; ++i) {
      T* const at = to + (first + i * high) * half_pitch<T> + column;
      const bool used = first + i * high < end;
      if constexpr (sizeof(From) == sizeof(T)) {
        if (used) *reinterpret_cast<Words*>(at) = row[i];
      } else {
        float part[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const float x = float_of(row[i].element[j]);
          part[j] = to_float(to_element<T>(x));
          row[i].element[j] = bits_of(x - part[j]);
          is_rest |= x - part[j] != 0;
        }
        if (used) store_floats<4>(part, at);
      }
    }
    return is_rest;
  }
};

// Rows of a tile that a product uses: `inner` of them, and zeros that complete the inner index.
COMERA_DEVICE int padded_rows(int inner) { return (min(inner, warp_tile) + 15) / 16 * 16; }

// A warp's product for the run of an id with first index `head`, of tiles at (m0, n0) of the gradient: dE A2[q]^T or
// A1[p]^T dE.
template <class T, bool of_left>
__device__ void add_run(const Shape& s, const float* sums, const T* other, int head, int id, int m0, int n0, T* tiles,
                        WarpTile& sum) {
  T *const a = tiles, *const b = tiles + warp_tile * half_pitch<T>;
  const int inner = of_left ? s.right : s.left;
  const bool g_aligned = s.right % 4 == 0 && begin_aligned(sums),
             other_aligned = (of_left ? s.right : s.rank) % 4 == 0 && begin_aligned(other);
  const float* const g = sums + head * s.columns;
  other += of_left ? static_cast<std::int64_t>(id % s.right_rows) * s.rank * s.right
                   : static_cast<std::int64_t>(id / s.right_rows) * s.left * s.rank;
  for (int k0 = 0; k0 < inner; k0 += warp_tile) {
    const int g_row = of_left ? m0 : k0, g_column = of_left ? k0 : n0, other_row = of_left ? n0 : k0,
              other_column = of_left ? k0 : m0, other_columns = of_left ? s.right : s.rank,
              other_rows = of_left ? s.rank : s.left, depth = padded_rows(inner - k0);
    TileRows<T> factors(other + other_row * other_columns + other_column, other_columns, other_rows - other_row,
                        other_columns - other_column, other_aligned);
    TileRows<float> rests(g + g_row * s.right + g_column, s.right, s.left - g_row, s.right - g_column, g_aligned);
    factors.put(of_left ? b : a, padded_rows(other_rows - other_row));
#pragma unroll 1
    for (int part = 0; part < bf16_parts; ++part) {
      const bool is_rest = rests.put(of_left ? a : b, padded_rows(s.left - g_row));
      __syncwarp();
#pragma unroll 1
      for (int k = 0; k < depth; k += 16) {
        if (of_left)
          multiply<true>(sum, a + k, half_pitch<T>, b + k, half_pitch<T>, 16);
        else
          multiply_turned(sum, a + k * half_pitch<T>, half_pitch<T>, b + k * half_pitch<T>, half_pitch<T>, 16);
      }
      __syncwarp();
      // No rest: a row of dy that no other was added to. The rest of what is not finite is never 0.
      if (!__any_sync(full_warp, is_rest)) break;
    }
  }
}

// Adds a warp's tile to a row's entries, or writes it.
template <class T>
__device__ void write_tile(const Shape& s, const WarpTile& tile, int m0, int n0, bool accumulate, T* row) {
  const bool pairs = s.right % 2 == 0 && reinterpret_cast<std::uintptr_t>(row) % 4 == 0;
  tile.for_pairs([&](int y, int x, float p, float q) {
    const int m = m0 + y, n = n0 + x;
    if (m >= s.left || n >= s.right) return;
    T* const to = row + static_cast<std::int64_t>(m) * s.right + n;
    float value[2] = {p, q};
    if (pairs) {
      float before[2] = {};
      if (accumulate) load_floats<2>(to, before);
      for (int j = 0; j < 2; ++j) value[j] += before[j];
      store_floats<2>(value, to);
      return;
    }
    for (int j = 0; j < 2 && n + j < s.right; ++j)
      to[j] = to_element<T>(accumulate ? to_float(to[j]) + value[j] : value[j]);
  });
}

// Bags of one id in bf16: like look_up_runs, with a warp per id and the products on the tensor cores.
template <class T>
__global__ void __launch_bounds__(ids_of_block* warp_size, 2)
    look_up_tiles(const Shape s, int count, const std::int32_t* keys, const std::int32_t* order, const T* left,
                  const T* right, T* y, bool accumulate) {
  begin_kernel();
  alignas(16) __shared__ T tiles[ids_of_block][2][warp_tile * half_pitch<T>];
  const int warp = static_cast<int>(threadIdx.x) / warp_size, first_id = static_cast<int>(blockIdx.x) * ids_of_block,
            end = min(count, first_id + ids_of_block), i = first_id + warp;
  if (i >= end || (warp > 0 && keys[i - 1] == keys[i])) return;
  const int id = keys[i], own = order[i];
  const bool is_inside = id < s.rows;
  const T* const a1 = left + static_cast<std::int64_t>(is_inside ? id / s.right_rows : 0) * s.left * s.rank;
  const T* const a2 = right + static_cast<std::int64_t>(is_inside ? id % s.right_rows : 0) * s.rank * s.right;
  const bool a1_aligned = s.rank % 4 == 0 && begin_aligned(left), a2_aligned = s.right % 4 == 0 && begin_aligned(right);
  T *const a = tiles[warp][0], *const b = tiles[warp][1];
  for (int m0 = 0; m0 < s.left; m0 += warp_tile)
    for (int n0 = 0; n0 < s.right; n0 += warp_tile) {
      WarpTile sum;
      sum.clear();
      for (int k0 = 0; k0 < s.rank; k0 += warp_tile) {
        TileRows<T> rows(a1 + m0 * s.rank + k0, s.rank, s.left - m0, s.rank - k0, a1_aligned),
            columns(a2 + k0 * s.right + n0, s.right, s.rank - k0, s.right - n0, a2_aligned);
        rows.put(a, padded_rows(s.left - m0));
        columns.put(b, padded_rows(s.rank - k0));
        __syncwarp();
        multiply<false>(sum, a, half_pitch<T>, b, half_pitch<T>, padded_rows(s.rank - k0));
        __syncwarp();
      }
      if (!is_inside)
        for (auto& rows : sum.c)
          for (auto& block : rows)
            for (float& x : block) x = NAN;
      write_tile(s, sum, m0, n0, accumulate, y + own * s.columns);
      for (int k = i + 1; k < end && keys[k] == id; ++k)
        write_tile(s, sum, m0, n0, accumulate, y + order[k] * s.columns);
    }
}

// Each block computes one tile of dA1[p] += sum over the runs of p of dE A2[q]^T, or of dA2[q] += sum over the runs of
// q of A1[p]^T dE. The runs go to the warps in turn, in the order of their ids; the warps' sums are added in order.
template <class T, bool of_left>
__global__ void __launch_bounds__(half_threads<T>, 2)
    half_gradient(const Shape s, int count, const std::int32_t* keys, const std::int32_t* right_keys,
                  const std::int32_t* right_order, const float* sums, const T* other, float* gradient) {
  begin_kernel();
  constexpr int warps = half_warps<T>, threads = warps * warp_size;
  alignas(16) __shared__ unsigned char shared[sizeof(T) * warps * 2 * warp_tile * half_pitch<T>];
  __shared__ int heads[threads], ids[threads], votes_of_warp[warps];
  const int rows = of_left ? s.left : s.rank, columns = of_left ? s.rank : s.right;
  const int m0 = static_cast<int>(blockIdx.y) * warp_tile, n0 = static_cast<int>(blockIdx.z) * warp_tile;
  const int row = static_cast<int>(blockIdx.x), t = static_cast<int>(threadIdx.x), lane = t % warp_size,
            warp = t / warp_size;
  const std::int64_t low = of_left ? static_cast<std::int64_t>(row) * s.right_rows : row,
                     high = low + (of_left ? s.right_rows : 1);
  const KeySpan span(of_left ? keys : right_keys, count, low, high);
  const int first = span.first, last = span.last;
  if (first == last) return;
  T* const tiles = reinterpret_cast<T*>(shared) + warp * 2 * warp_tile * half_pitch<T>;
  WarpTile sum;
  sum.clear();
  for (int window = first; window < last; window += threads) {
    // finds the first indices of the runs that begin among the next ones
    const int at = window + t;
    const bool head = at < last && (!of_left || at == 0 || keys[at - 1] != keys[at]);
    const unsigned votes = __ballot_sync(full_warp, head);
    if (lane == 0) votes_of_warp[warp] = __popc(votes);
    __syncthreads();
    int found = 0, before = __popc(votes & ((1u << lane) - 1));
    for (int w = 0; w < warps; ++w) {
      if (w < warp) before += votes_of_warp[w];
      found += votes_of_warp[w];
    }
    if (head) {
      heads[before] = of_left ? at : right_order[at];
      ids[before] = keys[heads[before]];
    }
    __syncthreads();
    for (int h = warp; h < found; h += warps) add_run<T, of_left>(s, sums, other, heads[h], ids[h], m0, n0, tiles, sum);
    __syncthreads();  // other threads may still read the heads of this window
  }
  float* const parts = reinterpret_cast<float*>(shared);  // [warps, 32, 32]
  sum.for_pairs([&](int y, int x, float p, float q) {
    float* const to = parts + (warp * warp_tile + y) * warp_tile + x;
    to[0] = p, to[1] = q;
  });
  __syncthreads();
  constexpr int elements = warp_tile * warp_tile / threads;  // of a thread; all are loaded before they are added to
  gradient += static_cast<std::int64_t>(row) * rows * columns;
  float before[elements];
#pragma unroll
  for (int e = 0; e < elements; ++e) {
    const int i = t + e * threads, m = m0 + i / warp_tile, n = n0 + i % warp_tile;
    before[e] = m < rows && n < columns ? gradient[m * columns + n] : 0;
  }
#pragma unroll
  for (int e = 0; e < elements; ++e) {
    const int i = t + e * threads, m = m0 + i / warp_tile, n = n0 + i % warp_tile;
    float total = 0;
#pragma unroll
    for (int w = 0; w < warps; ++w) total += parts[w * warp_tile * warp_tile + i];
    if (m < rows && n < columns) gradient[m * columns + n] = before[e] + total;
  }
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
  const auto blocks = static_cast<unsigned>(blocks_for(a.bags.ids, ids_of_block));
  const int count = static_cast<int>(a.bags.ids);
  if constexpr (sizeof(T) == 2) {
    return launch(context, {blocks, ids_of_block * warp_size}, look_up_tiles<T>, s, count, memory.keys, memory.order,
                  left, right, y, a.accumulate);
  } else {
    const unsigned across =
        static_cast<unsigned>(blocks_for(std::int64_t{items_of_row(s)} * ids_of_block, std::int64_t{row_threads} * 8));
    return launch(context, {{blocks, across < 64 ? across : 64}, row_threads}, look_up_runs<T, wide>, s, count,
                  memory.keys, memory.order, left, right, y, a.accumulate);
  }
}

template <class T>
Status half_gradients(const Context& context, const TtmBackward& a, const Shape& s, const BackwardMemory& memory) {
  const auto where = [](std::int64_t blocks, int rows, int columns) {
    const auto tiles = [](int size) { return static_cast<unsigned>(blocks_for(size, warp_tile)); };
    return Launch{{static_cast<unsigned>(blocks), tiles(rows), tiles(columns)}, half_threads<T>};
  };
  const int count = static_cast<int>(a.bags.ids);
  const TtmTable& t = *a.table;
  const Status status = launch(context, where(left_rows(t), s.left, s.rank), half_gradient<T, true>, s, count,
                               memory.keys, memory.right_keys, memory.right_order, memory.sums,
                               static_cast<const T*>(t.right), static_cast<float*>(a.d_left));
  if (status != Status::ok) return status;
  return launch(context, where(s.right_rows, s.rank, s.right), half_gradient<T, false>, s, count, memory.keys,
                memory.right_keys, memory.right_order, memory.sums, static_cast<const T*>(t.left),
                static_cast<float*>(a.d_right));
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
  if (a.bags.ids == 0 || a.bags.bags == 0) return Status::ok;
  return with_element(context, [&](auto element) { return backward<decltype(element)>(context, a); });
}

}  // namespace

void bind(Op<TtmForward>& op) { op.run = run, op.workspace_bytes = workspace_bytes; }
void bind(Op<TtmBackward>& op) { op.run = run, op.workspace_bytes = workspace_bytes; }

}  // namespace comera::kernels::cuda
