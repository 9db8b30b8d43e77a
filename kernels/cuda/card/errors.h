// Errors of the CUDA runtime and of cuBLAS: turned into a status, their words kept for Device::failure.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>

#include "kernels/types.h"

namespace comera::kernels::cuda {

bool ok(cudaError_t error);  // false: its words are the last failure of this thread
bool ok(cublasStatus_t error);
inline Status status_of(cudaError_t error) { return ok(error) ? Status::ok : Status::failed; }
inline Status status_of(cublasStatus_t error) { return ok(error) ? Status::ok : Status::failed; }
const char* last_failure();

}  // namespace comera::kernels::cuda
