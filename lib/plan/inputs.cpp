#include "lib/plan/inputs.h"

#include <cstring>

namespace comera::plan {

void Inputs::add(const TensorView& host, Tensor& bound) {
  bound = {unbound, host.dtype, host.shape, -1};
  items_.push_back({host, &bound});
  bytes_ += aligned(host.bytes());
}

void Inputs::add(std::span<const std::int32_t> indices, Tensor& bound) {
  bound = {};
  if (indices.empty()) return;
  // The kernels only read, but a view of host memory has no const form.
  add({const_cast<std::int32_t*>(indices.data()), DType::i32, {static_cast<std::int64_t>(indices.size())}}, bound);
}

void Inputs::copy(std::byte* to) const {
  for (const Item& item : items_) {
    const std::size_t bytes = item.host.bytes(), whole = aligned(bytes);
    std::memcpy(to, item.host.data, bytes);
    std::memset(to + bytes, 0, whole - bytes);
    to += whole;
  }
}

void Inputs::bind_to_host() {
  for (const Item& item : items_) item.bound->data = item.host.data;
}

void Inputs::bind_to_copy(std::byte* copy) {
  for (const Item& item : items_) {
    item.bound->data = copy;
    copy += aligned(item.host.bytes());
  }
}

}  // namespace comera::plan
