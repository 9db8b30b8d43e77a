// One launch for the elements of many tensors. They are split into tiles of one size, one block per tile, so that
// hundreds of small cores and one large table load the GPU evenly. The list of tensors is a launch parameter: CUDA
// 12.1 accepts 32,764 bytes of parameters.
#pragma once

#include "kernels/cuda/common/batch.h"

namespace comera::kernels::cuda {

template <class Tensor>
struct TensorBatch {
  static constexpr int capacity = parameter_bytes / (sizeof(Tensor) + sizeof(std::uint32_t));

  int count = 0;
  std::uint32_t tiles = 0;
  std::uint32_t first[capacity];  // tile at which each tensor begins
  Tensor tensors[capacity];

  // Index of the tensor that a tile belongs to.
  COMERA_DEVICE int find(std::uint32_t tile) const {
    return last_from(count, tile, [this](int i) { return first[i]; });
  }

  bool takes(std::int64_t more) const { return count < capacity && tiles + more <= 0x7FFFFFFF; }
  void add(const Tensor& tensor, std::int64_t more) {
    first[count] = tiles;
    tensors[count++] = tensor;
    tiles += static_cast<std::uint32_t>(more);
  }
};

// Calls start(batch, number of tiles in earlier batches) for all tensors that are not empty; one batch if they fit.
template <class Tensor, class Start>
Status for_batches(const Tensor* tensors, int count, std::int64_t tile, Start start) {
  TensorBatch<Tensor> batch;
  std::int64_t before = 0;
  const auto flush = [&] {
    const Status status = batch.tiles > 0 ? start(batch, before) : Status::ok;
    before += batch.tiles;
    batch.count = 0, batch.tiles = 0;
    return status;
  };
  for (int i = 0; i < count; ++i) {
    const std::int64_t more = blocks_for(tensors[i].count, tile);
    if (more == 0) continue;
    if (!batch.takes(more))
      if (const Status status = flush(); status != Status::ok) return status;
    batch.add(tensors[i], more);
  }
  return flush();
}

template <class Tensor>
std::int64_t tiles_of_many(const Tensor* tensors, int count, std::int64_t tile) {
  std::int64_t sum = 0;
  for (int i = 0; i < count; ++i) sum += blocks_for(tensors[i].count, tile);
  return sum;
}

// Calls body(tensor, begin, end, tile) for each tile of the block.
template <class Tensor, class Body>
__device__ void for_tiles(const TensorBatch<Tensor>& batch, std::int64_t tile_size, const Body& body) {
  for (std::uint32_t tile = blockIdx.x; tile < batch.tiles; tile += gridDim.x) {
    const int i = batch.find(tile);
    const std::int64_t begin = static_cast<std::int64_t>(tile - batch.first[i]) * tile_size,
                       rest = batch.tensors[i].count - begin;
    body(batch.tensors[i], begin, begin + (rest < tile_size ? rest : tile_size), tile);
  }
}

}  // namespace comera::kernels::cuda
