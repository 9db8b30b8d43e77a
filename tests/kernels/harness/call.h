// Calls of the kernels in place(), for tests that need a specific element type or kind of product.
#pragma once

#include <catch2/catch.hpp>
#include <random>
#include <utility>
#include <vector>

#include "kernels/cuda/common/element.h"
#include "tests/kernels/harness/place.h"

namespace comera::kernels::cuda {

using Floats = std::vector<float>;

inline Floats rounded(Floats values) {
  for (float& x : values) x = to_float(to_bf16(x));
  return values;
}

// Normal numbers that are exact in bf16.
inline Floats numbers(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> distribution;
  Floats v(static_cast<std::size_t>(count));
  for (float& x : v) x = distribution(random);
  return rounded(v);
}

// Tensors of one call in the memory of the device.
class Call {
 public:
  explicit Call(DType dtype, bool fp8 = false) {
    context_.dtype = dtype, context_.fp8 = fp8, context_.stream = place().stream;
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call() {
    for (const auto& [data, bytes] : tensors_) backend().memory.release(data, bytes);
  }

  void* f32(const Floats& values) { return place_of(values); }
  void* activations(const Floats& values) {  // of the call's dtype
    if (context_.dtype == DType::f32) return place_of(values);
    std::vector<Bf16> elements;
    for (float x : values) elements.push_back(to_bf16(x));
    return place_of(elements);
  }
  const double* doubles(const std::vector<double>& values) { return static_cast<const double*>(place_of(values)); }
  const std::uint8_t* bytes(const std::vector<std::uint8_t>& values) {
    return static_cast<const std::uint8_t*>(place_of(values));
  }
  const StepScalars* scalars(const StepScalars& values) {
    return static_cast<const StepScalars*>(place_of(std::vector<StepScalars>{values}));
  }
  const std::int32_t* ints(const std::vector<std::int32_t>& values) {
    return static_cast<const std::int32_t*>(place_of(values));
  }

  template <class Args>
  void run(const Op<Args>& op, const Args& args) {
    context_.workspace_bytes = op.workspace_bytes ? op.workspace_bytes(context_, args) : 0;
    context_.workspace = place_of(std::vector<std::uint8_t>(context_.workspace_bytes + 1, 0xFF));
    REQUIRE(op.run(context_, args) == Status::ok);
    REQUIRE(wait_for(backend(), context_) == Status::ok);
  }

  Floats read_f32(const void* data, std::size_t count) const {
    Floats values(count);
    REQUIRE(backend().memory.download(context_, values.data(), data, count * sizeof(float)) == Status::ok);
    return values;
  }
  Floats read_activations(const void* data, std::size_t count) const {
    if (context_.dtype == DType::f32) return read_f32(data, count);
    std::vector<Bf16> elements(count);
    REQUIRE(backend().memory.download(context_, elements.data(), data, count * sizeof(Bf16)) == Status::ok);
    Floats values;
    for (Bf16 x : elements) values.push_back(to_float(x));
    return values;
  }

 private:
  template <class X>
  void* place_of(const std::vector<X>& values) {
    const std::size_t bytes = values.size() * sizeof(X);
    tensors_.emplace_back(backend().memory.allocate(bytes), bytes);
    REQUIRE(backend().memory.upload(context_, tensors_.back().first, values.data(), bytes) == Status::ok);
    return tensors_.back().first;
  }
  Context context_;
  std::vector<std::pair<void*, std::size_t>> tensors_;
};

}  // namespace comera::kernels::cuda
