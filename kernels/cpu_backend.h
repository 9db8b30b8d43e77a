// The libraries and instruction sets of the CPU backend, for `--version` and the heads of benchmark tables.
#pragma once

#include <cstdint>

namespace comera::kernels {

// Library, version and core type of what multiplies large and small matrices, e.g. "OpenBLAS 0.3.21 (Cooperlake),
// libxsmm 1.17".
const char* cpu_blas_description();

// The instruction set of libxsmm's small products, one of LIBXSMM_X86_...; 0 before the first. libxsmm finds a product
// by its shape alone, so what was generated for another set is thrown away: no table of another set may be running.
extern int generated_target;
void generate_for(int target);

// The instruction sets that this program knows, best first.
inline constexpr const char* cpu_isas[] = {"v4bf16", "v4", "v3"};
// True where this machine has the instruction set of that name.
bool cpu_supports(const char* isa);

// Does multiply-adds of floats in independent chains of registers, with the vectors of an instruction set that this
// machine has. Gives the FLOPs: a multiplication and an addition per lane. 0 for another name.
double run_multiply_adds(const char* isa, std::int64_t rounds);

}  // namespace comera::kernels
