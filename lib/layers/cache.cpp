#include "lib/layers/cache.h"

#include <fmt/core.h>

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

void KeyValueCache::clear(Walk& walk, const Rotary* rotary) const {
  for (std::int64_t layer = 0; layer < shape_.layers; ++layer)
    for (const Tensor& tensor : {keys(layer), values(layer)})
      walk.run(walk.backend().fill, kernels::Fill{tensor.data, tensor.bytes()});
  if (rotary) rotary->fill(walk, tables());
}

void KeyValueCache::write(Pass& pass, const Tensor& index, const void* from, std::int64_t distance,
                          const Tensor& to) const {
  pass.walk.run(pass.backend().scatter_rows, kernels::ScatterRows{.rows = pass.tokens(),
                                                                  .columns = shape_.width,
                                                                  .index = static_cast<const std::int32_t*>(index.data),
                                                                  .dy = from,
                                                                  .dx = to.data,
                                                                  .lddx = shape_.width,
                                                                  .lddy = distance});
}

void KeyValueCache::store(Pass& pass, std::int64_t layer, const Tensor& index, const Tensor& k, const Tensor& v) const {
  write(pass, index, k.data, shape_.width, keys(layer));
  write(pass, index, v.data, shape_.width, values(layer));
}

void KeyValueCache::store_joined(Pass& pass, std::int64_t layer, const Tensor& index, const Tensor& qkv) const {
  const std::int64_t columns = qkv.elements() / pass.tokens();
  const auto at = [&](std::int64_t column) -> const void* {
    if (!qkv.data) return nullptr;  // while memory is planned
    return static_cast<const std::byte*>(qkv.data) + static_cast<std::size_t>(column) * size_of(qkv.dtype);
  };
  write(pass, index, at(columns - 2 * shape_.width), columns, keys(layer));
  write(pass, index, at(columns - shape_.width), columns, values(layer));
}

}  // namespace comera::layers
