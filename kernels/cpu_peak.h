// The most that the arithmetic units of the processor do, with nothing but registers: what rates of kernels are compared with.
#pragma once

#include <cstdint>

namespace comera::kernels {

// Multiply-adds of floats in independent chains, with the vectors of an instruction set of cpu_isas (kernels/cpu_backend.h) that this machine has.
// Gives the FLOPs that were done: a multiplication and an addition per lane. 0 for another name.
double run_multiply_adds(const char* isa, std::int64_t rounds);

}  // namespace comera::kernels
