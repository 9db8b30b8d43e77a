// Runs a grid of CUDA threads on one host thread. Blocks run one after another; the threads of a block are fibers that
// switch at barriers and warp exchanges. set_order chooses their order, so that a missing barrier changes the results.
#pragma once

#include <cstddef>
#include <cstdint>

namespace comera::kernels::cuda::emulator {

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3() = default;
  constexpr dim3(unsigned x, unsigned y = 1, unsigned z = 1)  // NOLINT(google-explicit-constructor): as in CUDA
      : x(x), y(y), z(z) {}
};

inline dim3 threadIdx, blockIdx, blockDim, gridDim;  // of the running fiber

enum class Order : std::uint8_t { rising, falling, shuffled };
void set_order(Order order);
// Shared memory per block. The default is that of the smallest supported GPU.
void set_shared_limit(std::size_t bytes);
std::size_t shared_limit();

// Runs body(data) once for every thread of the grid. Aborts with a message if threads wait at a barrier that others
// never reach.
void run_grid(dim3 grid, dim3 block, std::size_t shared_bytes, void (*body)(void*), void* data);
void count_begin();  // begin_kernel: every thread calls it once, else run_grid aborts

int lane();                         // of the warp, 0..31
void wait_for_block();              // __syncthreads
void wait_for_warp(unsigned mask);  // __syncwarp
void meet_warp(unsigned mask);      // like an instruction of a whole warp: does not order memory
std::uint64_t exchange(unsigned mask, std::uint64_t value, int from_lane);  // every lane of the mask must call it
unsigned ballot(unsigned mask, bool predicate);
void* dynamic_shared();  // the launch's shared_bytes; filled with NaN at the start of a block

}  // namespace comera::kernels::cuda::emulator
