// What numbers a run computes with (--dtype). fp32: all in float. tf32: the same, factors of products rounded to 10
// bits behind the point. bf16: activations, their gradients and what products read of weights in bf16; parameters,
// their gradients, moments, statistics and sums in float. fp8: the same, and the factors of the tall products of TT
// layers in eight bits (kernels/cuda/fp8.h).
#pragma once

#include <string>
#include <vector>

#include "kernels/cuda_devices.h"
#include "lib/plan/walk.h"

namespace comera::plan {

std::vector<std::string> precisions();  // by name

// Makes the machine compute so. InputError in one sentence where it cannot: `card` is what its backend runs on, null
// the host.
void set_precision(Machine& machine, const std::string& name, const kernels::CudaDevice* card);

}  // namespace comera::plan
