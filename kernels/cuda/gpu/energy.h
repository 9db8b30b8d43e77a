// Energy of the GPU as counted by its driver (NVML). NVML is loaded at run time, so the library loads without it.
#pragma once

#include "kernels/backend.h"

namespace comera::kernels::cuda {

// Energy of the current device in joules since the driver was loaded. The counter is updated about every 0.1 s. GPUs
// since Volta support it.
Status joules(double* used);

}  // namespace comera::kernels::cuda
