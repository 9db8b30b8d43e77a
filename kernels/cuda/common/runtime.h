// Services of a device besides kernels: memory, synchronisation, graphs. Two implementations: gpu/ uses the CUDA
// runtime, emulator/ is the emulator for tests.
#pragma once

#include "kernels/backend.h"

namespace comera::kernels::cuda {

// The backend table (backend.cu), for libcomera_cuda.so and, in tests, for the emulator.
const Backend& table();

Memory device_memory();
Device device_control();
const char* variant_name();  // "sm_90 NVIDIA H200", or "emulator"

// A queued copy within device memory, and a queued fill with zeros.
Status copy_on_device(const Context& context, void* to, const void* from, std::size_t bytes);
Status zero_on_device(const Context& context, void* data, std::size_t bytes);

// Copies on queues beside that of the context (kernels/host_copy.h).
Status copy_beside(const Context& context, const HostCopy& copy);
Status join_beside(const Context& context, const HostJoin& join);

}  // namespace comera::kernels::cuda
