// Shapes and views. A tensor is a pointer, an element type and a shape. lib/plan owns the memory.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "kernels/types.h"

namespace comera {

using kernels::DType;
using kernels::size_of;

const char* name_of(DType dtype);  // "f32", ...

// Up to `max_dims` sizes, row major. Never allocates.
class Shape {
 public:
  static constexpr int max_dims = 6;

  constexpr Shape() = default;
  constexpr Shape(std::initializer_list<std::int64_t> sizes) {
    for (std::int64_t size : sizes) push_back(size);
  }

  constexpr int dims() const { return dims_; }
  constexpr std::int64_t operator[](int dim) const { return sizes_[dim]; }
  constexpr std::int64_t& operator[](int dim) { return sizes_[dim]; }
  constexpr void push_back(std::int64_t size) { sizes_[dims_++] = size; }
  constexpr std::int64_t elements() const {
    std::int64_t product = 1;
    for (int i = 0; i < dims_; ++i) product *= sizes_[i];
    return product;
  }
  std::span<const std::int64_t> sizes() const { return {sizes_.data(), static_cast<std::size_t>(dims_)}; }
  constexpr bool operator==(const Shape& other) const {
    if (dims_ != other.dims_) return false;
    for (int i = 0; i < dims_; ++i)
      if (sizes_[i] != other.sizes_[i]) return false;
    return true;
  }

 private:
  std::array<std::int64_t, max_dims> sizes_{};
  int dims_ = 0;
};

std::string to_string(const Shape& shape);  // "[768, 3072]"

struct TensorView {
  void* data = nullptr;
  DType dtype = DType::f32;
  Shape shape;

  std::int64_t elements() const { return shape.elements(); }
  std::size_t bytes() const { return static_cast<std::size_t>(shape.elements()) * size_of(dtype); }
  template <class T>
  std::span<T> as() const {
    return {static_cast<T*>(data), static_cast<std::size_t>(shape.elements())};
  }
};

}  // namespace comera
