// The emulator's queue: work runs immediately, or is recorded for replays while a graph is captured.
#pragma once

#include <functional>

#include "kernels/types.h"

namespace comera::kernels::cuda::emulator {

// Runs `work` or records it. The memory that represents GPU memory is inaccessible (PROT_NONE) except during `work`,
// as GPU memory is for the host.
Status enqueue(const Context& context, std::function<void()> work);

// Registers a kernel: its first call uses GPU memory, even while a graph is captured.
void load(const void* kernel);
void unload_all();  // clears the list, so that the next calls are first calls again

}  // namespace comera::kernels::cuda::emulator
