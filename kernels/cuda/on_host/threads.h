// A grid of CUDA threads on one thread of the host: blocks run one after another, the threads of a block are fibers
// that change at barriers and warp exchanges. The order in which they run is chosen (set_order), so that a missing
// barrier shows as other results.
#pragma once

#include <cstddef>
#include <cstdint>

namespace comera::kernels::cuda::on_host {

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3() = default;
  constexpr dim3(unsigned x, unsigned y = 1, unsigned z = 1)
      : x(x), y(y), z(z) {}  // NOLINT(google-explicit-constructor): as CUDA has it
};

inline dim3 threadIdx, blockIdx, blockDim, gridDim;  // of the fiber that runs

enum class Order : std::uint8_t { rising, falling, shuffled };
void set_order(Order order);
// Of a block's own memory, as a card would say; at first what the smallest one gives.
void set_shared_limit(std::size_t bytes);
std::size_t shared_limit();

// Runs body(data) once for every thread of the grid. Ends the program with a sentence when threads wait for ones that
// never come.
void run_grid(dim3 grid, dim3 block, std::size_t shared_bytes, void (*body)(void*), void* data);

int lane();                         // of the warp, 0..31
void wait_for_block();              // __syncthreads
void wait_for_warp(unsigned mask);  // __syncwarp
void meet_warp(unsigned mask);      // as instructions of a whole warp do, which order no memory
std::uint64_t exchange(unsigned mask, std::uint64_t value, int from_lane);  // every lane of the mask must call it
unsigned ballot(unsigned mask, bool predicate);
void* dynamic_shared();  // what the launch asked for, filled with NaN when a block begins

}  // namespace comera::kernels::cuda::on_host
