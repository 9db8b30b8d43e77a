// What the CPU backend stands on, for `--version` and the heads of benchmark tables.
#pragma once

namespace comera::kernels {

// Library, version and core type of what multiplies large and small matrices, e.g. "OpenBLAS 0.3.21 (Cooperlake), libxsmm 1.17".
const char* cpu_blas_description();

// Whether this machine has the instruction set of that name ("v3", "v4", "v4bf16").
bool cpu_supports(const char* isa);

}  // namespace comera::kernels
