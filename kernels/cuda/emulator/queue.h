// The emulator's queue: work runs immediately, or is recorded for replays while a graph is captured.
#pragma once

#include <cstddef>
#include <functional>

#include "kernels/types.h"

namespace comera::kernels::cuda::emulator {

// Runs `work` or records it. The memory that represents GPU memory is inaccessible (PROT_NONE) except during `work`,
// as GPU memory is for the host.
Status enqueue(const Context& context, std::function<void()> work);

// Registers a kernel: its first call uses GPU memory. The first call must not come while a graph is captured: a GPU
// would load the kernel there.
Status load(const void* kernel);
void unload_all();  // clears the list, so that the next calls are first calls again

// Ends the program if a launch needs more shared memory than the kernel's limit allows at that moment.
void check_shared(const void* kernel, std::size_t bytes);
int raised_limits();  // how often a limit was set

}  // namespace comera::kernels::cuda::emulator
