// Parts of a call's workspace. The same code computes the required size: without memory it only counts.
#pragma once

#include <cstdint>

#include "kernels/cuda/common/gemm.h"

namespace comera::kernels::cuda {

// Each part begins at a multiple of 256 bytes.
class Parts {
 public:
  explicit Parts(void* memory = nullptr) : memory_(static_cast<char*>(memory)) {
    if (memory_) used_ = (256 - reinterpret_cast<std::uintptr_t>(memory_) % 256) % 256;
  }
  template <class T>
  T* take(std::int64_t count) {
    char* const part = memory_ ? memory_ + used_ : nullptr;
    used_ += (static_cast<std::size_t>(count) * sizeof(T) + 255) / 256 * 256;
    return reinterpret_cast<T*>(part);
  }
  void* for_gemm(std::int64_t results) { return take<char>(static_cast<std::int64_t>(gemm_workspace(results))); }
  std::size_t bytes() const { return used_ + 256; }  // sufficient for any alignment of the memory

 private:
  char* memory_;
  std::size_t used_ = 0;
};

}  // namespace comera::kernels::cuda
