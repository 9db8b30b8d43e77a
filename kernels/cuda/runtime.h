// Services of a device besides kernels: memory, waiting, graphs. Two implementations: card/ on the CUDA runtime,
// on_host/ for tests.
#pragma once

#include "kernels/backend.h"

namespace comera::kernels::cuda {

// The backend's table (backend.cu): what libcomera_cuda.so hands out, and in tests its double without a card.
const Backend& table();

Memory device_memory();
Device device_control();
const char* variant_name();  // "sm_90 NVIDIA H200", or "on host"

// A queued copy inside the device's memory and a queued fill with zeros.
Status copy_on_device(const Context& context, void* to, const void* from, std::size_t bytes);
Status zero_on_device(const Context& context, void* data, std::size_t bytes);

}  // namespace comera::kernels::cuda
