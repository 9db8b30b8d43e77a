// Numbers in the memory of the emulator or of a GPU, for tests of single kernels with either element type.
#pragma once

#include <catch2/catch.hpp>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/cuda/common/element.h"
#include "tests/kernels/harness/place.h"

namespace comera::kernels::cuda {

using Floats = std::vector<float>;

inline Floats normal(std::int64_t count, unsigned seed, double scale) {
  std::mt19937 random(seed);
  std::normal_distribution<float> distribution;
  Floats v(static_cast<std::size_t>(count));
  for (float& x : v) x = distribution(random) * static_cast<float>(scale);
  return v;
}

template <class T>
Context context_of() {
  Context context;
  context.dtype = sizeof(T) == 2 ? DType::bf16 : DType::f32, context.stream = place().stream;
  return context;
}

template <class T>
class DeviceNumbers {
 public:
  explicit DeviceNumbers(const Floats& values) : bytes_(values.size() * sizeof(T)), data_(memory().allocate(bytes_)) {
    std::vector<T> elements;
    for (float x : values) elements.push_back(to_element<T>(x));
    REQUIRE(memory().upload(context_of<T>(), data_, elements.data(), bytes_) == Status::ok);
  }
  DeviceNumbers(const DeviceNumbers&) = delete;
  DeviceNumbers& operator=(const DeviceNumbers&) = delete;
  ~DeviceNumbers() { memory().release(data_, bytes_); }
  void* data() const { return data_; }
  Floats read() const {
    std::vector<T> elements(bytes_ / sizeof(T));
    REQUIRE(memory().download(context_of<T>(), elements.data(), data_, bytes_) == Status::ok);
    Floats values;
    for (T x : elements) values.push_back(to_float(x));
    return values;
  }

 private:
  static const Memory& memory() { return place().backend->memory; }
  std::size_t bytes_;
  void* data_;
};

template <class T>
Floats rounded(Floats values) {
  for (float& x : values) x = to_float(to_element<T>(x));
  return values;
}

// Runs the op as a model does, with T as activation dtype.
template <class T, class Args>
void run_op(const Op<Args>& op, const Args& a) {
  Context context = context_of<T>();
  context.workspace_bytes = op.workspace_bytes(context, a);
  const DeviceNumbers<float> workspace(Floats(context.workspace_bytes / sizeof(float) + 1, NAN));
  context.workspace = workspace.data();
  REQUIRE(op.run(context, a) == Status::ok);
  REQUIRE(wait_for(*place().backend, context) == Status::ok);
}

}  // namespace comera::kernels::cuda
