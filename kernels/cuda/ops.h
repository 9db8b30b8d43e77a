// Functions that set the entries of the CUDA table, one per op of kernels/ops.def. The file of an op defines its
// function; backend.cu calls them all. For an op that this backend lacks, the function is empty.
#pragma once

#include "kernels/backend.h"
#include "kernels/cuda/common/device.h"

namespace comera::kernels::cuda {

#define COMERA_OP(name, Args) void bind(Op<Args>& op);
#include "kernels/ops.def"

}  // namespace comera::kernels::cuda
