#include "lib/plan/plan.h"

#include <algorithm>
#include <numeric>

namespace comera::plan {

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::weights: return "weights";
    case Kind::gradients: return "gradients";
    case Kind::optimizer: return "optimizer";
    case Kind::saved: return "saved";
    case Kind::scratch: return "scratch";
  }
  return "?";
}

namespace {

bool lifetimes_meet(const PlannedTensor& a, const PlannedTensor& b) { return a.first <= b.last && b.first <= a.last; }

// The lowest gap among the already placed neighbours in time that holds `bytes`.
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

// Greedy by size: the largest tensors choose first. Ties go to the earlier one, so the layout depends on the table alone.
void Plan::lay_out(bool overlay) {
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return tensors[a].bytes > tensors[b].bytes; });
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

BytesByKind Plan::peak_by_kind() const {
  std::vector<std::array<std::int64_t, kinds>> change(static_cast<std::size_t>(ticks) + 2);
  for (const PlannedTensor& tensor : tensors) {
    const auto size = static_cast<std::int64_t>(aligned(tensor.bytes));
    change[tensor.first][static_cast<int>(tensor.kind)] += size;
    change[tensor.last + 1][static_cast<int>(tensor.kind)] -= size;
  }
  std::array<std::int64_t, kinds> live{}, best{};
  std::int64_t best_sum = -1;
  for (const auto& tick : change) {
    for (int kind = 0; kind < kinds; ++kind) live[kind] += tick[kind];
    const std::int64_t sum = std::accumulate(live.begin(), live.end(), std::int64_t{0});
    if (sum > best_sum) best_sum = sum, best = live;
  }
  best[static_cast<int>(Kind::scratch)] += static_cast<std::int64_t>(bytes) - best_sum;
  BytesByKind result{};
  std::copy(best.begin(), best.end(), result.begin());
  return result;
}

double Plan::flops() const {
  double sum = 0;
  for (const OpCount& op : ops) sum += op.flops;
  return sum;
}

}  // namespace comera::plan
