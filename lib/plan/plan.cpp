#include "lib/plan/plan.h"

#include <algorithm>
#include <numeric>

namespace comera::plan {

const char* name_of(Category category) {
  switch (category) {
    case Category::weights: return "weights";
    case Category::gradients: return "gradients";
    case Category::optimizer: return "optimizer";
    case Category::saved: return "saved";
    case Category::scratch: return "scratch";
  }
  return "?";
}

namespace {

bool lifetimes_meet(const PlannedTensor& a, const PlannedTensor& b) { return a.first <= b.last && b.first <= a.last; }

// Returns the lowest gap of at least `bytes` among the placed tensors with overlapping lifetimes.
std::size_t lowest_gap(std::vector<const PlannedTensor*>& neighbours, std::size_t bytes) {
  std::sort(neighbours.begin(), neighbours.end(), [](const auto* a, const auto* b) { return a->offset < b->offset; });
  std::size_t offset = 0;
  for (const PlannedTensor* neighbour : neighbours) {
    if (offset + bytes <= neighbour->offset) break;
    offset = std::max(offset, neighbour->offset + aligned(neighbour->bytes));
  }
  return offset;
}

}  // namespace

// Greedy by size: the largest tensors are placed first. Of equal ones the earlier is first, so that the layout depends
// only on the table.
void Plan::lay_out(bool overlay) {
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return tensors[a].bytes > tensors[b].bytes; });
  std::vector<const PlannedTensor*> placed, neighbours;
  bytes = 0;
  for (std::size_t index : order) {
    PlannedTensor& tensor = tensors[index];
    if (tensor.bytes == 0) continue;
    neighbours.clear();
    for (const PlannedTensor* other : placed)
      if (!overlay || lifetimes_meet(tensor, *other)) neighbours.push_back(other);
    tensor.offset = lowest_gap(neighbours, tensor.bytes);
    bytes = std::max(bytes, tensor.offset + aligned(tensor.bytes));
    placed.push_back(&tensor);
  }
}

int Plan::peak_tick() const {
  std::vector<std::int64_t> change(static_cast<std::size_t>(ticks) + 2);
  for (const PlannedTensor& tensor : tensors) {
    change[tensor.first] += static_cast<std::int64_t>(aligned(tensor.bytes));
    change[tensor.last + 1] -= static_cast<std::int64_t>(aligned(tensor.bytes));
  }
  std::partial_sum(change.begin(), change.end(), change.begin());
  return static_cast<int>(std::max_element(change.begin(), change.end()) - change.begin());
}

BytesByCategory Plan::peak_by_category() const {
  BytesByCategory live{};
  const int tick = peak_tick();
  for (const PlannedTensor& tensor : tensors)
    if (tensor.first <= tick && tick <= tensor.last) live[static_cast<int>(tensor.category)] += aligned(tensor.bytes);
  live[static_cast<int>(Category::scratch)] += bytes - std::accumulate(live.begin(), live.end(), std::size_t{0});
  return live;
}

double Plan::flops() const {
  double sum = 0;
  for (const OpCount& op : ops) sum += op.flops;
  return sum;
}

}  // namespace comera::plan
