// The number formats of a run (--dtype). fp32: everything in float. tf32: the same, with factors of products rounded to
// 10 mantissa bits. bf16 (GPUs, and the CPU's instruction sets v4bf16 and v4amx): activations, their gradients and the
// weights that products read in bf16; parameters, their gradients, moments, statistics and sums in float. fp8: the same
// as bf16, with the factors of the tall products of TT layers in eight bits (kernels/cuda/common/fp8.h).
#pragma once

#include <string>
#include <vector>

#include "kernels/host/cuda_devices.h"
#include "lib/plan/walk.h"

namespace comera::plan {

std::vector<std::string> precisions();  // names of all precisions

// Returns true if the CPU backend computes in this precision with this instruction set.
bool cpu_computes(const std::string& precision, const std::string& isa);

// Configures the machine for this precision. Throws InputError in one sentence if it is not supported. `gpu`: the GPU
// of the machine's backend; null: the host.
void set_precision(Machine& machine, const std::string& name, const kernels::CudaDevice* gpu);
// The same for a machine that only plans and therefore supports every precision.
void set_planned_precision(Machine& machine, const std::string& name);

}  // namespace comera::plan
