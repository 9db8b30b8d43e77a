// Numbers in the memory of CUDA's double, for tests of single passes.
#pragma once

#include <catch2/catch.hpp>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/cuda/element.h"
#include "kernels/cuda/runtime.h"

namespace comera::kernels::cuda {

using Floats = std::vector<float>;

inline Floats normal(std::int64_t count, unsigned seed, double scale) {
  std::mt19937 random(seed);
  std::normal_distribution<float> distribution;
  Floats v(static_cast<std::size_t>(count));
  for (float& x : v) x = distribution(random) * static_cast<float>(scale);
  return v;
}

// Numbers in the memory of the double, as elements of T.
template <class T>
class DeviceNumbers {
 public:
  explicit DeviceNumbers(const Floats& values) : bytes_(values.size() * sizeof(T)), data_(memory().allocate(bytes_)) {
    std::vector<T> elements;
    for (float x : values) elements.push_back(to_element<T>(x));
    REQUIRE(memory().upload({}, data_, elements.data(), bytes_) == Status::ok);
  }
  DeviceNumbers(const DeviceNumbers&) = delete;
  DeviceNumbers& operator=(const DeviceNumbers&) = delete;
  ~DeviceNumbers() { memory().release(data_, bytes_); }
  void* data() const { return data_; }
  Floats read() const {
    std::vector<T> elements(bytes_ / sizeof(T));
    REQUIRE(memory().download({}, elements.data(), data_, bytes_) == Status::ok);
    Floats values;
    for (T x : elements) values.push_back(to_float(x));
    return values;
  }

 private:
  static const Memory& memory() { return table().memory; }
  std::size_t bytes_;
  void* data_;
};

template <class T>
Floats rounded(Floats values) {
  for (float& x : values) x = to_float(to_element<T>(x));
  return values;
}

}  // namespace comera::kernels::cuda
