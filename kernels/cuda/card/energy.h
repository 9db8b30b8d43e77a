// Energy of the card as its driver counts it (NVML), found at run time: the library needs nothing of it to be loaded.
#pragma once

#include "kernels/backend.h"

namespace comera::kernels::cuda {

// Energy of the current device since the driver was loaded, in steps of about 0.1 s of its power; cards since Volta
// count it.
Status joules(double* used);

}  // namespace comera::kernels::cuda
