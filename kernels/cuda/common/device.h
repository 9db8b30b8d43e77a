// Base of every kernel file: the CUDA language under nvcc, else the emulator's version of it (emulator/language.h), and
// the launch functions. No other part of a kernel file depends on the compiler.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/cuda/common/shared_limits.h"
#include "kernels/types.h"

#ifdef __CUDACC__
#include <cuda_runtime.h>
#else
#include "kernels/cuda/emulator/language.h"
#include "kernels/cuda/emulator/queue.h"
#endif

#define COMERA_DEVICE __host__ __device__ __forceinline__

namespace comera::kernels::cuda {

constexpr int warp_size = 32;
constexpr unsigned full_warp = 0xFFFFFFFFu;
constexpr std::int64_t processors = 132;      // of a large GPU; work is split for this number
constexpr std::int64_t grid_limit = 1 << 20;  // blocks of a launch; kernels loop over the rest

constexpr std::int64_t blocks_for(std::int64_t count, std::int64_t per_block) {
  return (count + per_block - 1) / per_block;
}
constexpr unsigned grid_for(std::int64_t count, std::int64_t per_block) {
  const std::int64_t blocks = blocks_for(count, per_block);
  return static_cast<unsigned>(blocks < grid_limit ? blocks : grid_limit);
}

// The first element of a thread in a flat grid, and the step to its next one.
COMERA_DEVICE std::int64_t flat_index() { return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; }
COMERA_DEVICE std::int64_t flat_stride() { return static_cast<std::int64_t>(gridDim.x) * blockDim.x; }

struct Launch {
  dim3 grid, block;
  std::size_t shared_bytes = 0;
};

// launch() puts a kernel on the context's queue. If the runtime rejects it, the result is `failed` and Device::failure
// returns the text.
Status raise_shared_limit(const void* kernel, std::size_t bytes);
std::size_t shared_limit();  // largest shared memory of a block on the current device, in bytes

inline Status allow_shared(const void* kernel, const Launch& where) {
  return where.shared_bytes <= SharedLimits::of_every_kernel ? Status::ok
                                                             : raise_shared_limit(kernel, where.shared_bytes);
}

// Parameter<T>: a kernel's `const T __grid_constant__ name` in the type of the kernel.
#ifdef __CUDACC__
template <class T>
using Parameter = T;

template <class T>
__device__ T* shared_memory() {
  extern __shared__ __align__(16) unsigned char comera_shared[];
  return reinterpret_cast<T*>(comera_shared);
}

// The first statement of every kernel (scripts/check_layering.py; the emulator counts it). On sm_90 and newer a launch
// may begin when all blocks of the one before have begun, and no memory that earlier launches write may be read, or
// that they read be written, before this. It waits until the launch before has ended and its writes are visible. That
// one has waited for its own predecessor: one kernel without this line would break the chain for all behind it. Only
// then is the next launch let in, so that at most two of them share the multiprocessors.
__device__ __forceinline__ void begin_kernel() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}

Status launch_kernel(const Context& context, const Launch& where, const void* kernel, void** arguments);

template <class... Parameters, class... Arguments>
Status launch(const Context& context, const Launch& where, void (*kernel)(Parameters...),
              const Arguments&... arguments) {
  if (where.grid.x == 0 || where.grid.y == 0 || where.grid.z == 0) return Status::ok;
  if (const Status ready = allow_shared(reinterpret_cast<const void*>(kernel), where); ready != Status::ok)
    return ready;
  const auto start = [&](Parameters... values) {
    void* pointers[] = {&values...};
    return launch_kernel(context, where, reinterpret_cast<const void*>(kernel), pointers);
  };
  return start(static_cast<Parameters>(arguments)...);
}
#else
template <class T>
using Parameter = const T&;

template <class T>
T* shared_memory() {
  return static_cast<T*>(emulator::dynamic_shared());
}

inline void begin_kernel() { emulator::count_begin(); }

template <class... Parameters, class... Arguments>
Status launch(const Context& context, const Launch& where, void (*kernel)(Parameters...),
              const Arguments&... arguments) {
  if (where.grid.x == 0 || where.grid.y == 0 || where.grid.z == 0) return Status::ok;
  const void* const name = reinterpret_cast<const void*>(kernel);
  if (const Status ready = allow_shared(name, where); ready != Status::ok) return ready;
  if (const Status ready = emulator::load(name); ready != Status::ok) return ready;
  return emulator::enqueue(context, [=] {
    emulator::check_shared(name, where.shared_bytes);
    auto body = [&] { kernel(static_cast<Parameters>(arguments)...); };
    emulator::run_grid(
        where.grid, where.block, where.shared_bytes, [](void* data) { (*static_cast<decltype(body)*>(data))(); },
        &body);
  });
}
#endif

}  // namespace comera::kernels::cuda
