// Many small work items in one launch. Their descriptions are the kernel's parameter; each item has its own blocks.
#pragma once

#include <vector>

#include "kernels/cuda/common/device.h"

namespace comera::kernels::cuda {

constexpr std::size_t parameter_bytes = 30 * 1024;  // a launch accepts 32764
constexpr int few_items = 12;
template <class Item>
constexpr int many_items = static_cast<int>((parameter_bytes - 16) / sizeof(Item));

// Item needs a member `blocks`; launch_some sets `first_block`.
template <class Item, int capacity>
struct Batch {
  Item item[capacity];
  int count = 0;
};

// Index of the last of `count` pieces with first(i) <= at. The values first(i) rise; first(0) is 0.
template <class First>
COMERA_DEVICE int last_from(int count, unsigned at, const First& first) {
  int low = 0, high = count;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (first(middle) <= at)
      low = middle;
    else
      high = middle;
  }
  return low;
}

// The item that a block belongs to.
template <class Item, int capacity>
__device__ int item_of_block(const Batch<Item, capacity>& batch) {
  return last_from(batch.count, blockIdx.x, [&](int i) { return batch.item[i].first_block; });
}

template <int capacity, class Item, class Kernel>
Status launch_some(const Context& context, const Item* items, int count, dim3 threads, Kernel kernel) {
  Batch<Item, capacity> batch;
  unsigned blocks = 0;
  for (batch.count = 0; batch.count < count; ++batch.count) {
    Item& item = batch.item[batch.count];
    item = items[batch.count];
    item.first_block = blocks;
    blocks += item.blocks;
  }
  return launch(context, {blocks, threads}, kernel, batch);
}

// `few` and `many` are the same kernel for the two batch sizes. Items without blocks are skipped.
template <class Item>
Status launch_batches(const Context& context, std::vector<Item> items, dim3 threads,
                      void (*few)(Parameter<Batch<Item, few_items>>),
                      void (*many)(Parameter<Batch<Item, many_items<Item>>>)) {
  std::erase_if(items, [](const Item& item) { return item.blocks == 0; });
  const int count = static_cast<int>(items.size());
  if (count <= few_items)
    return count == 0 ? Status::ok : launch_some<few_items>(context, items.data(), count, threads, few);
  Status status = Status::ok;
  for (int first = 0; first < count && status == Status::ok; first += many_items<Item>) {
    const int some = count - first < many_items<Item> ? count - first : many_items<Item>;
    status = launch_some<many_items<Item>>(context, items.data() + first, some, threads, many);
  }
  return status;
}

// Items with one block each.
template <class Item>
struct Items {
  static constexpr int capacity = static_cast<int>(parameter_bytes / sizeof(Item));
  Item item[capacity];
};

// Calls kernel(items, rest...) for the items make(0) to make(count - 1), which it makes in this order.
template <class Make, class Kernel, class... Rest>
Status launch_items(const Context& context, int count, unsigned threads, Kernel kernel, const Make& make,
                    const Rest&... rest) {
  using Some = Items<decltype(make(0))>;
  for (int first = 0; first < count; first += Some::capacity) {
    Some items;
    const int some = count - first < Some::capacity ? count - first : Some::capacity;
    for (int i = 0; i < some; ++i) items.item[i] = make(first + i);
    const Status status = launch(context, {static_cast<unsigned>(some), threads}, kernel, items, rest...);
    if (status != Status::ok) return status;
  }
  return Status::ok;
}

}  // namespace comera::kernels::cuda
