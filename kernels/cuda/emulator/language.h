// CUDA's C++ keywords and functions that the kernels use, with their GPU semantics, for a host compiler. The same
// kernel sources then run on the CPU, one block at a time, with threads as fibers (threads.h). Only tests use this;
// the program does not.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/cuda/emulator/threads.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
// A parameter that all threads share. It stands behind the type: const T __grid_constant__ name.
#define __grid_constant__ &  // NOLINT(bugprone-macro-parentheses)
#define __shared__ static    // blocks run one after another on one host thread

using std::max;
using std::min;

using comera::kernels::cuda::emulator::blockDim;
using comera::kernels::cuda::emulator::blockIdx;
using comera::kernels::cuda::emulator::dim3;
using comera::kernels::cuda::emulator::gridDim;
using comera::kernels::cuda::emulator::threadIdx;

struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
inline double rsqrt(double x) { return 1 / std::sqrt(x); }
template <class T>
T __ldg(const T* from) {
  return *from;
}

inline void __syncthreads() { comera::kernels::cuda::emulator::wait_for_block(); }
inline void __syncwarp(unsigned mask = 0xFFFFFFFFu) { comera::kernels::cuda::emulator::wait_for_warp(mask); }
inline void __threadfence() {}

namespace comera::kernels::cuda::emulator {

// The value of lane `source` of the warp; the lane's own value if that lane is inactive.
template <class T>
T from_lane(unsigned mask, T value, int source) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = exchange(mask, bits, source);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace comera::kernels::cuda::emulator

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
  const int lane = comera::kernels::cuda::emulator::lane();
  return comera::kernels::cuda::emulator::from_lane(mask, value, lane / width * width + source % width);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32) {
  const int lane = comera::kernels::cuda::emulator::lane(), source = lane ^ bits;
  return comera::kernels::cuda::emulator::from_lane(mask, value, source / width == lane / width ? source : lane);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, int distance, int width = 32) {
  const int lane = comera::kernels::cuda::emulator::lane(), source = lane + distance;
  return comera::kernels::cuda::emulator::from_lane(mask, value, source / width == lane / width ? source : lane);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, int distance, int width = 32) {
  const int lane = comera::kernels::cuda::emulator::lane(), source = lane - distance;
  return comera::kernels::cuda::emulator::from_lane(mask, value, source >= lane / width * width ? source : lane);
}
inline unsigned __ballot_sync(unsigned mask, int predicate) {
  return comera::kernels::cuda::emulator::ballot(mask, predicate != 0);
}
inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }

// Atomic because no other thread runs at the same time.
template <class T>
T atomicAdd(T* to, T value) {
  const T before = *to;
  *to = static_cast<T>(before + value);
  return before;
}
template <class T>
T atomicMax(T* to, T value) {
  const T before = *to;
  *to = std::max(before, value);
  return before;
}
template <class T>
T atomicMin(T* to, T value) {
  const T before = *to;
  *to = std::min(before, value);
  return before;
}
template <class T>
T atomicExch(T* to, T value) {
  const T before = *to;
  *to = value;
  return before;
}
template <class T>
T atomicCAS(T* to, T expected, T value) {
  const T before = *to;
  if (before == expected) *to = value;
  return before;
}
