// The CUDA backend without a card: the same kernel files, compiled for the host (language.h). Slow; for tests.
#pragma once

#include "kernels/backend.h"

namespace comera::kernels::cuda {

const Backend& table();

}  // namespace comera::kernels::cuda
