// One loop over the elements of many tensors. Their concatenation is cut into tiles of equal size, so hundreds of small
// cores and one large table are spread evenly over the threads.
#pragma once

#include "kernels/cpu/common/isa.h"
#include "kernels/host/thread_pool.h"

namespace comera::kernels::COMERA_CPU {

constexpr std::int64_t many_chunk = 32768;

template <class Tensor>
std::int64_t many_tiles(const Tensor* tensors, int count) {
  std::int64_t elements = 0;
  for (int i = 0; i < count; ++i) elements += tensors[i].count;
  return tiles_of(elements, many_chunk);
}

// Calls body(tensor, begin, end, tile) for the part of each tensor in each tile. The parts of a tile come in order.
template <class Tensor, class Body>
void for_many(const Context& context, const Tensor* tensors, int count, Body body) {
  parallel_for(context, many_tiles(tensors, count), [&](std::int64_t tile) {
    const std::int64_t first = tile * many_chunk, last = first + many_chunk;
    std::int64_t start = 0;  // offset of tensor i in the concatenation
    for (int i = 0; i < count && start < last; start += tensors[i].count, ++i) {
      const std::int64_t begin = max(first, start), end = min(last, start + tensors[i].count);
      if (begin < end) body(tensors[i], begin - start, end - start, tile);
    }
  });
}

}  // namespace comera::kernels::COMERA_CPU
