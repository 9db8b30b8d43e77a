// Cache of the keys and values of earlier tokens, so that a decoder computes one row for the next token. A slab with
// two tensors per layer, and the rotary tables of all positions. Keys are stored after rotation.
#pragma once

#include <cstdint>

#include "lib/layers/rotary.h"

namespace comera::layers {

struct CacheShape {
  std::int64_t layers = 0, sequences = 0, capacity = 0;  // capacity: tokens per sequence
  std::int64_t width = 0, head_size = 0;                 // of a token's keys over all key heads; of one head
};

class KeyValueCache {
 public:
  KeyValueCache(DType dtype, const CacheShape& shape);

  const CacheShape& shape() const { return shape_; }
  plan::Slab& slab() { return slab_; }
  const plan::Slab& slab() const { return slab_; }
  // [sequences * capacity, width]
  Tensor keys(std::int64_t layer) const { return slab_[first_ + static_cast<int>(2 * layer)]; }
  Tensor values(std::int64_t layer) const { return slab_[first_ + static_cast<int>(2 * layer) + 1]; }
  RotaryTables tables() const { return {slab_[0], slab_[1]}; }

  // Empties the cache and fills the tables. `rotary`: null if the model has none.
  void clear(Walk& walk, const Rotary* rotary) const;
  // Writes row k of k and v [K, width] to row index[k] of the layer. A row is written at most once between two clears.
  // Negative indices are skipped.
  void store(Pass& pass, std::int64_t layer, const Tensor& index, const Tensor& k, const Tensor& v) const;
  // The same for the last 2 * width columns of qkv.
  void store_joined(Pass& pass, std::int64_t layer, const Tensor& index, const Tensor& qkv) const;

 private:
  void write(Pass& pass, const Tensor& index, const void* from, std::int64_t distance, const Tensor& to) const;

  static constexpr int first_ = 2;

  CacheShape shape_;
  plan::Slab slab_;
};

}  // namespace comera::layers
