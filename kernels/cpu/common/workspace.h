// Allocates buffers from a call's workspace. The same code computes the required size: without memory it only counts.
#pragma once

#include "kernels/cpu/common/isa.h"
#include "kernels/types.h"

namespace comera::kernels::COMERA_CPU {

class Workspace {
 public:
  explicit Workspace(void* memory) : memory_(static_cast<char*>(memory)) {}

  float* floats(std::int64_t count) { return static_cast<float*>(take(count)); }
  std::int32_t* ints(std::int64_t count) { return static_cast<std::int32_t*>(take(count)); }
  std::size_t used() const { return used_; }

 private:
  void* take(std::int64_t words) {
    char* piece = memory_ ? memory_ + used_ : nullptr;
    used_ += (static_cast<std::size_t>(words) * 4 + 63) / 64 * 64;
    return piece;
  }

  char* memory_;
  std::size_t used_ = 0;
};

inline const float* f32(const void* p) { return static_cast<const float*>(p); }
inline float* f32(void* p) { return static_cast<float*>(p); }
// Numbers of type T, float or Bf16.
template <class T>
const T* as(const void* p) {
  return static_cast<const T*>(p);
}
template <class T>
T* as(void* p) {
  return static_cast<T*>(p);
}

// The part [first, last) of `size` items for `index` of `parts` parts. Parts are as even as whole units of `unit`
// allow.
struct Range {
  std::int64_t first, last;
};
inline Range part_of(std::int64_t size, std::int64_t unit, std::int64_t parts, std::int64_t index) {
  const std::int64_t units = tiles_of(size, unit);
  return {min(units * index / parts * unit, size), min(units * (index + 1) / parts * unit, size)};
}

}  // namespace comera::kernels::COMERA_CPU
