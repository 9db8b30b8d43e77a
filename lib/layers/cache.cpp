#include "lib/layers/cache.h"

#include <fmt/format.h>

#include <utility>

#include "kernels/elementwise.h"

namespace comera::layers {

KeyValueCache::KeyValueCache(DType dtype, const CacheShape& shape) : shape_(shape) {
  for (const char* name : {"cosines", "sines"})
    slab_.add(name, plan::Category::saved, kernels::parameter_type(dtype), {shape.capacity, shape.head_size / 2});
  for (std::int64_t layer = 0; layer < shape.layers; ++layer)
    for (const char* name : {"keys", "values"})
      slab_.add(fmt::format("layer.{}.{}", layer, name), plan::Category::saved, dtype,
                {shape.sequences * shape.capacity, shape.width});
}

void KeyValueCache::clear(Walk& walk, const Rotary& rotary) const {
  for (std::int64_t layer = 0; layer < shape_.layers; ++layer)
    for (const Tensor& tensor : {keys(layer), values(layer)})
      walk.run(walk.backend().fill, kernels::Fill{tensor.data, tensor.bytes()});
  rotary.fill(walk, tables());
}

void KeyValueCache::store(Pass& pass, std::int64_t layer, const Tensor& index, const Tensor& k, const Tensor& v) const {
  const auto* rows = static_cast<const std::int32_t*>(index.data);
  for (const auto& [from, to] : {std::pair{k, keys(layer)}, std::pair{v, values(layer)}})
    pass.walk.run(pass.backend().scatter_rows,
                  kernels::ScatterRows{pass.tokens(), shape_.width, rows, from.data, to.data, shape_.width});
}

}  // namespace comera::layers
