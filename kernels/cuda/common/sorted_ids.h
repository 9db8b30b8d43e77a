// Sorts the ids of a batch by value, equal ids by position, and sums rows over runs of equal ids. All work is on the
// device; the launch shapes depend only on the number of ids.
//
// Ids are sorted by counting: the position of an id is the number of ids that precede it. For the few thousand ids of a
// batch all are counted in one launch, because a second launch would take longer. More ids are first sorted in tiles;
// then the position of an id is that in its tile plus the results of a binary search in every other tile.
#pragma once

#include "kernels/bags.h"
#include "kernels/cuda/common/device.h"
#include "kernels/cuda/common/vector.h"
#include "kernels/cuda/common/workspace.h"

namespace comera::kernels::cuda {

constexpr int most_counted = 4096;  // ids that are sorted in one launch
constexpr int count_warps = 8, sort_tile = 1024;
constexpr int ids_of_chunk = 32;  // sorted ids per block of sum_pieces
constexpr unsigned fold_threads = 64;

// Ids outside the table are sorted behind all others. Sums skip them; look-ups return NaN.
COMERA_DEVICE int key_of_id(std::int32_t id, int rows) { return id < 0 || id >= rows ? rows : id; }

// Ids behind the last bag belong to none; they are sorted behind all others too.
struct KeyOfId {
  const std::int32_t *id, *end;  // end: the number of ids in bags; null: all
  int rows;
  KeyOfId(const Bags& bags, int rows)
      : id(bags.id), end(bags.offsets ? bags.offsets + bags.bags : nullptr), rows(rows) {}
  COMERA_DEVICE int operator()(int i) const {
    const std::int32_t own = id[i];  // in any case, so that the loads of several keys overlap
    return end && i >= *end ? rows : key_of_id(own, rows);
  }
};

// A block finds the positions of 32 ids. Each of its warps counts the keys of every eighth 32 that precede them.
template <class Key>
__global__ void __launch_bounds__(count_warps* warp_size)
    count_keys(int count, Key key, std::int32_t* keys, std::int32_t* order) {
  begin_kernel();
  constexpr int threads = count_warps * warp_size, loads = most_counted / threads, four = 4;
  alignas(16) __shared__ int all[most_counted];
  __shared__ int counts[count_warps][warp_size];
  const int t = static_cast<int>(threadIdx.x), lane = t % warp_size, warp = t / warp_size,
            block = static_cast<int>(blockIdx.x), i = block * warp_size + lane;
  int loaded[loads];
#pragma unroll
  for (int u = 0; u < loads; ++u)
    loaded[u] = key(min(u * threads + t, count - 1));  // in any case, so that no load waits for another
#pragma unroll
  for (int u = 0; u < loads; ++u) {
    const int at = u * threads + t;
    all[at] = at < count ? loaded[u] : 0x7FFFFFFF;  // larger than all keys
  }
  __syncthreads();
  const int own = i < count ? all[i] : 0;  // the largest int has no successor
  int before = 0;
  for (int c = warp; c * warp_size < count; c += count_warps) {
    const int* const some = all + c * warp_size;
    const int limit = own + (c < block);  // among equal keys, earlier ones come first
#pragma unroll
    for (int j = 0; j < warp_size; j += four) {
      const auto other = *reinterpret_cast<const Elements<int, four>*>(some + j);
#pragma unroll
      for (int e = 0; e < four; ++e) before += other.element[e] < limit;
    }
    if (c != block) continue;
#pragma unroll 8
    for (int j = 0; j < warp_size; ++j) before += j < lane && some[j] == own;
  }
  counts[warp][lane] = before;
  __syncthreads();
  if (warp > 0 || i >= count) return;
  int rank = 0;
#pragma unroll
  for (int w = 0; w < count_warps; ++w) rank += counts[w][lane];
  keys[rank] = own;
  order[rank] = i;
}

template <int tile, class Key>
__global__ void sort_tiles(int count, Key key, std::int32_t* tile_keys, std::int32_t* tile_order) {
  begin_kernel();
  constexpr int four = 4;  // keys of an access
  alignas(16) __shared__ int keys[tile];
  const int first = static_cast<int>(blockIdx.x) * tile, t = static_cast<int>(threadIdx.x),
            some = min(tile, count - first);
  const int own = t < some ? key(first + t) : 0x7FFFFFFF;  // larger than all keys
  keys[t] = own;
  __syncthreads();
  if (t >= some) return;
  int before = 0;
#pragma unroll 8
  for (int j = 0; j < tile; j += four) {
    const auto other = *reinterpret_cast<const Elements<int, four>*>(keys + j);
#pragma unroll
    for (int e = 0; e < four; ++e) before += other.element[e] < own + (j + e < t);
  }
  tile_keys[first + before] = own;
  tile_order[first + before] = first + t;
}

// Number of sorted keys below `key`.
COMERA_DEVICE int keys_below(const std::int32_t* keys, int count, std::int64_t key) {
  int low = 0, high = count;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (keys[middle] < key)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

// The keys from which first keys are not below `low` and `high`, searched by the lanes of a warp: sixteen for each of
// the two, so that 4096 keys take three loads in sequence.
struct KeySpan {
  int first, last;

  __device__ KeySpan(const std::int32_t* keys, int count, std::int64_t low, std::int64_t high) {
    constexpr int lanes = warp_size / 2;
    const int lane = static_cast<int>(threadIdx.x) % warp_size, half = lane / lanes;
    const std::int64_t key = half == 0 ? low : high;
    int begin = 0, end = count;
    for (int span = count; span > 0; span = (span + lanes - 1) / lanes - 1) {  // the largest span of both searches
      const int step = (span + lanes - 1) / lanes, probe = begin + lane % lanes * step;
      const unsigned votes = __ballot_sync(full_warp, probe < end && keys[probe] < key);
      const int below = __popc(votes >> (lanes * half) & 0xFFFFu);
      end = min(end, begin + below * step);
      if (below > 0) begin += (below - 1) * step + 1;
    }
    first = __shfl_sync(full_warp, begin, 0);
    last = __shfl_sync(full_warp, begin, lanes);
  }
};

template <int tile>
__global__ void join_sorted_tiles(int count, const std::int32_t* tile_keys, const std::int32_t* tile_order,
                                  std::int32_t* keys, std::int32_t* order) {
  begin_kernel();
  constexpr int at_once = 16;  // tiles that are searched together: each step of a search waits for a load
  const int i = static_cast<int>(flat_index());
  if (i >= count) return;
  const int own_tile = i / tile, key = tile_keys[i], from = tile_order[i];
  int rank = i % tile;
  for (int t0 = 0; t0 * tile < count; t0 += at_once) {
    int below[at_once] = {};
    for (int step = tile; step > 0; step /= 2) {
      int probed[at_once];  // loaded even where nothing is searched, so that no load waits for another
#pragma unroll
      for (int u = 0; u < at_once; ++u) probed[u] = tile_keys[min((t0 + u) * tile + below[u] + step, count) - 1];
#pragma unroll
      for (int u = 0; u < at_once; ++u) {
        const int probe = below[u] + step;
        // among equal keys, those of earlier tiles come first
        if (probe <= min(tile, count - (t0 + u) * tile) && probed[u] < key + (t0 + u < own_tile)) below[u] = probe;
      }
    }
#pragma unroll
    for (int u = 0; u < at_once; ++u) rank += t0 + u == own_tile ? 0 : below[u];
  }
  keys[rank] = key;
  order[rank] = from;
}

struct SortMemory {
  std::int32_t *tile_keys, *tile_order;
  SortMemory(std::int64_t count, Parts& parts)
      : tile_keys(parts.take<std::int32_t>(count)), tile_order(parts.take<std::int32_t>(count)) {}
};

// keys: the sorted keys. order[s]: the original position of keys[s].
template <class Key>
Status sort_keys(const Context& context, std::int64_t count, Key key, const SortMemory& memory, std::int32_t* keys,
                 std::int32_t* order) {
  const int n = static_cast<int>(count);
  const auto blocks = [&](int ids) { return static_cast<unsigned>(blocks_for(n, ids)); };
  if (n <= most_counted)
    return launch(context, {blocks(warp_size), count_warps * warp_size}, count_keys<Key>, n, key, keys, order);
  const Status status = launch(context, {blocks(sort_tile), sort_tile}, sort_tiles<sort_tile, Key>, n, key,
                               memory.tile_keys, memory.tile_order);
  if (status != Status::ok) return status;
  return launch(context, {blocks(128), 128}, join_sorted_tiles<sort_tile>, n, memory.tile_keys, memory.tile_order, keys,
                order);
}

// Memory and results of sort_keys().
struct SortedIds {
  SortMemory sort;
  std::int32_t *keys, *order;
  SortedIds(std::int64_t count, Parts& parts)
      : sort(count, parts), keys(parts.take<std::int32_t>(count)), order(parts.take<std::int32_t>(count)) {}
};

// Memory for sums of gradient rows of `columns` elements by id; `pieces` is that of DenseSums.
struct FoldMemory : SortedIds {
  float* pieces;
  FoldMemory(std::int64_t count, std::int64_t columns, Parts& parts)
      : SortedIds(count, parts), pieces(parts.take<float>(2 * blocks_for(count, ids_of_chunk) * columns)) {}
};

// Indices of ids have 32 bits.
inline bool ids_fit(const Bags& bags, std::int64_t rows) {
  constexpr std::int64_t limit = std::int64_t{1} << 30;  // searches add two places
  return bags.ids <= limit && bags.bags <= limit && rows <= limit;
}

// The bag of position i: the last bag that begins at or before i.
COMERA_DEVICE int bag_of(const Bags& bags, int i) {
  if (!bags.offsets) return i;
  const int bag = keys_below(bags.offsets, static_cast<int>(bags.bags) + 1, static_cast<std::int64_t>(i) + 1) - 1;
  return min(bag, static_cast<int>(bags.bags) - 1);
}
COMERA_DEVICE float weight_of(const Bags& bags, int i) { return bags.weights ? bags.weights[i] : 1.0f; }

// Sums rows of dy over runs of equal ids. Sorted ids are split into chunks; a piece is the part of a run in one chunk.
// A second launch adds the pieces of runs that span several chunks, from left to right.
struct Runs {
  const std::int32_t *keys = nullptr, *order = nullptr;
  int count = 0, rows = 0;
  std::int64_t columns = 0;
};

// Destinations of sums: run() is that of a whole run, piece() that of a piece with first sorted index `s`. The sum of
// a run is added to the table.
struct DenseSums {
  float *table, *pieces;  // pieces: two per chunk, one that begins with the chunk and one that does not
  std::int64_t columns;
  COMERA_DEVICE float* piece(int s) const {
    return pieces + (s / ids_of_chunk * 2 + (s % ids_of_chunk != 0)) * columns;
  }
  COMERA_DEVICE float* run(int, int key) const { return table + key * columns; }
  static constexpr bool accumulate = true;
};
// One row per run, at the run's first sorted index.
struct RunSums {
  float* sums;  // [ids, columns]
  std::int64_t columns;
  COMERA_DEVICE float* piece(int s) const { return sums + s * columns; }
  COMERA_DEVICE float* run(int s, int) const { return sums + s * columns; }
  static constexpr bool accumulate = false;
};

template <int lanes, class Sums>
__device__ void give_run(const Sums& sums, int s, int key, std::int64_t column, float* value) {
  float* const to = sums.run(s, key) + column;
  if (Sums::accumulate) {
    float before[lanes];
    load_floats<lanes>(to, before);
    for (int j = 0; j < lanes; ++j) value[j] += before[j];
  }
  store_floats<lanes>(value, to);
}

template <class T, int lanes, class Sums>
__global__ void sum_pieces(Runs runs, Bags bags, const T* dy, Sums sums) {
  begin_kernel();
  __shared__ int keys[ids_of_chunk + 1], bag[ids_of_chunk];
  __shared__ float weight[ids_of_chunk];
  constexpr int ahead = 8;  // rows that are loaded before they are added
  const int first = static_cast<int>(blockIdx.x) * ids_of_chunk, some = min(ids_of_chunk, runs.count - first);
  const int earlier = first > 0 ? runs.keys[first - 1] : -1;
  for (int i = static_cast<int>(threadIdx.x); i <= some; i += fold_threads) {
    keys[i] = first + i < runs.count ? runs.keys[first + i] : -1;
    if (i >= some) continue;
    bag[i] = bag_of(bags, runs.order[first + i]);
    weight[i] = weight_of(bags, runs.order[first + i]);
  }
  __syncthreads();
  const std::int64_t column = (static_cast<std::int64_t>(blockIdx.y) * fold_threads + threadIdx.x) * lanes;
  if (column >= runs.columns) return;
  const bool continues = earlier == keys[0];
  float sum[lanes] = {}, next[ahead][lanes];
  int begin = 0;
  for (int i0 = 0; i0 < some; i0 += ahead) {
#pragma unroll
    for (int u = 0; u < ahead; ++u)
      if (i0 + u < some) load_floats<lanes>(dy + bag[i0 + u] * runs.columns + column, next[u]);
#pragma unroll
    for (int u = 0; u < ahead; ++u) {
      const int i = i0 + u;
      if (i >= some) break;
      for (int j = 0; j < lanes; ++j) sum[j] = fmaf(weight[i], next[u][j], sum[j]);
      const bool run_goes_on = keys[i + 1] == keys[i];
      if (run_goes_on && i + 1 < some) continue;
      if (keys[i] < runs.rows) {
        if (run_goes_on || (begin == 0 && continues))
          store_floats<lanes>(sum, sums.piece(first + begin) + column);
        else
          give_run<lanes>(sums, first + begin, keys[i], column, sum);
      }
      for (int j = 0; j < lanes; ++j) sum[j] = 0;
      begin = i + 1;
    }
  }
}

// If a run begins in this chunk and continues in the next one, this chunk's block adds up its pieces.
template <int lanes, class Sums>
__global__ void join_pieces(Runs runs, Sums sums) {
  begin_kernel();
  const int first = static_cast<int>(blockIdx.x) * ids_of_chunk, last = first + ids_of_chunk - 1;
  if (last + 1 >= runs.count) return;
  const int key = runs.keys[last];
  if (runs.keys[last + 1] != key || key >= runs.rows) return;
  const int begin = first + keys_below(runs.keys + first, ids_of_chunk, key);
  if (begin == first && first > 0 && runs.keys[first - 1] == key) return;
  const std::int64_t column = (static_cast<std::int64_t>(blockIdx.y) * fold_threads + threadIdx.x) * lanes;
  if (column >= runs.columns) return;
  constexpr int ahead = 16;  // pieces that are loaded before they are added: a run may span the whole batch
  float total[lanes], more[ahead][lanes];
  bool there[ahead];
  load_floats<lanes>(sums.piece(begin) + column, total);
  int s0 = last + 1;
  do {
#pragma unroll
    for (int u = 0; u < ahead; ++u)
      there[u] = runs.count - s0 > u * ids_of_chunk && runs.keys[s0 + u * ids_of_chunk] == key;
#pragma unroll
    for (int u = 0; u < ahead; ++u)
      if (there[u]) load_floats<lanes>(sums.piece(s0 + u * ids_of_chunk) + column, more[u]);
#pragma unroll
    for (int u = 0; u < ahead; ++u)
      for (int j = 0; there[u] && j < lanes; ++j) total[j] += more[u][j];
    s0 += ahead * ids_of_chunk;
  } while (there[ahead - 1]);
  give_run<lanes>(sums, begin, key, column, total);
}

template <class T, int lanes, class Sums>
Status fold_with(const Context& context, const Runs& runs, const Bags& bags, const T* dy, const Sums& sums) {
  const dim3 grid{static_cast<unsigned>(blocks_for(runs.count, ids_of_chunk)),
                  static_cast<unsigned>(blocks_for(runs.columns, fold_threads * lanes))};
  const Status status = launch(context, {grid, fold_threads}, sum_pieces<T, lanes, Sums>, runs, bags, dy, sums);
  if (status != Status::ok || grid.x <= 1) return status;
  return launch(context, {grid, fold_threads}, join_pieces<lanes, Sums>, runs, sums);
}

// `aligned`: the rows of `sums` begin at multiples of 16 bytes.
template <class T, class Sums>
Status fold_runs(const Context& context, const Runs& runs, const Bags& bags, const T* dy, const Sums& sums,
                 bool aligned) {
  if (aligned && rows_are_aligned<T>(dy, runs.columns) && runs.columns % 4 == 0)
    return fold_with<T, 4>(context, runs, bags, dy, sums);
  return fold_with<T, 1>(context, runs, bags, dy, sums);
}

}  // namespace comera::kernels::cuda
