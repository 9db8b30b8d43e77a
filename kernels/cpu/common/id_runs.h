// Sorts the ids of a batch into runs of equal ids, so that each row of a table is computed or reduced once.
#pragma once

#include "kernels/bags.h"
#include "kernels/cpu/common/workspace.h"

namespace comera::kernels::COMERA_CPU {

// Ids in bags. Those behind the last bag belong to none.
inline std::int64_t used_ids(const Bags& bags) { return bags.offsets ? bags.offsets[bags.bags] : bags.ids; }

inline bool ids_in_range(const Bags& bags, std::int64_t rows) {
  const std::int64_t used = used_ids(bags);
  for (std::int64_t i = 0; i < used; ++i)
    if (bags.id[i] < 0 || bags.id[i] >= rows) return false;
  return true;
}

// Fills order[0 .. count) with 0 .. count - 1 sorted by key(i) in [0, limit). The sort is stable (a radix sort by
// bytes).
template <class Key>
void stable_order(std::int64_t count, std::int64_t limit, std::int32_t* order, std::int32_t* spare, Key key) {
  for (std::int64_t i = 0; i < count; ++i) order[i] = static_cast<std::int32_t>(i);
  for (int shift = 0; limit > 1 && (limit - 1) >> shift > 0; shift += 8) {
    std::int32_t first[257] = {};
    for (std::int64_t i = 0; i < count; ++i) ++first[(key(order[i]) >> shift & 255) + 1];
    for (int digit = 0; digit < 256; ++digit) first[digit + 1] += first[digit];
    for (std::int64_t i = 0; i < count; ++i) spare[first[key(order[i]) >> shift & 255]++] = order[i];
    for (std::int64_t i = 0; i < count; ++i) order[i] = spare[i];
  }
}

// Run r holds the equal ids at positions order[start[r]] .. order[start[r + 1] - 1]. Runs are in the order of id.
struct IdRuns {
  std::int32_t *order, *start, *spare;
  std::int64_t count = 0;

  IdRuns(Workspace& workspace, const Bags& bags)
      : order(workspace.ints(bags.ids)), start(workspace.ints(bags.ids + 1)), spare(workspace.ints(bags.ids)) {}

  void sort(const Bags& bags, std::int64_t rows) {
    const std::int64_t used = used_ids(bags);
    stable_order(used, rows, order, spare, [&](std::int32_t i) { return bags.id[i]; });
    count = 0;
    for (std::int64_t i = 0; i < used; ++i)
      if (i == 0 || bags.id[order[i]] != bags.id[order[i - 1]]) start[count++] = static_cast<std::int32_t>(i);
    start[count] = static_cast<std::int32_t>(used);
  }
  std::int64_t id(const Bags& bags, std::int64_t run) const { return bags.id[order[start[run]]]; }
};

// Sets bag[i] for every position i.
inline void fill_bags(const Bags& bags, std::int32_t* bag) {
  for (std::int64_t b = 0; b < bags.bags; ++b) {
    const std::int64_t first = bags.offsets ? bags.offsets[b] : b, last = bags.offsets ? bags.offsets[b + 1] : b + 1;
    for (std::int64_t i = first; i < last; ++i) bag[i] = static_cast<std::int32_t>(b);
  }
}

}  // namespace comera::kernels::COMERA_CPU
