#include "lib/plan/slab.h"

#include <fmt/core.h>

#include <utility>

namespace comera::plan {

Arena::Arena(const kernels::Backend& backend, std::size_t bytes, const char* what) : backend_(&backend), bytes_(bytes) {
  if (bytes == 0) return;
  data_ = backend.memory.allocate(bytes);
  if (!data_)
    throw OutOfMemory(fmt::format("[memory] {} needs {:.1f} MiB on {} and there is not enough", what,
                                  static_cast<double>(bytes) / (1 << 20), backend.name),
                      "use a smaller --batch or --seq");
}

Arena::Arena(Arena&& other) noexcept
    : backend_(other.backend_), data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Arena& Arena::operator=(Arena&& other) noexcept {
  std::swap(backend_, other.backend_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Arena::~Arena() {
  if (data_) backend_->memory.release(data_, bytes_);
}

int Slab::add(std::string name, Category category, DType dtype, Shape shape) {
  const std::size_t bytes = static_cast<std::size_t>(shape.elements()) * size_of(dtype);
  items_.push_back({std::move(name), category, dtype, shape, bytes_, bytes});
  bytes_ += aligned(bytes);
  return static_cast<int>(items_.size()) - 1;
}

BytesByCategory Slab::bytes_by_category() const {
  BytesByCategory sum{};
  for (const Item& item : items_) sum[static_cast<int>(item.category)] += aligned(item.bytes);
  return sum;
}

Tensor Slab::operator[](int item) const {
  const Item& row = items_[item];
  return {base_ ? base_ + row.offset : unbound, row.dtype, row.shape, -1};
}

}  // namespace comera::plan
