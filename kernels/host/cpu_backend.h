// Libraries and instruction sets of the CPU backend, for `--version` and the headers of benchmark tables.
#pragma once

#include "kernels/types.h"

namespace comera::kernels {

// Name, version and core type of the libraries for large and small matrix products, e.g. "OpenBLAS 0.3.21 (Cooperlake),
// libxsmm 1.17".
const char* cpu_blas_description();

// Instruction set of libxsmm's generated kernels, one of LIBXSMM_X86_...; 0 before the first kernel. libxsmm looks up a
// kernel by its shape alone, so generate_for() discards all kernels that were generated for another set. No table of
// another set may be running during this call.
extern int generated_target;
void generate_for(int target);

// Names of the supported instruction sets, best first.
inline constexpr const char* cpu_isas[] = {"v4amx", "v4bf16", "v4", "v3"};
// Returns true if this machine supports the instruction set of that name.
bool cpu_supports(const char* isa);

// Runs fused multiply-adds of numbers of type f32 or bf16 in independent register chains with the given instruction
// set, which the machine must support. Returns the number of FLOPs: one multiplication and one addition per number.
// Returns 0 for an unknown name, and for a type that the set lacks.
double run_multiply_adds(const char* isa, DType dtype, std::int64_t rounds);

}  // namespace comera::kernels
