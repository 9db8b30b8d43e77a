// Converts errors of the CUDA runtime and of cuBLAS to a Status and stores their text for Device::failure.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>

#include "kernels/types.h"

namespace comera::kernels::cuda {

bool ok(cudaError_t error);  // on false, last_failure() of this thread returns the text
bool ok(cublasStatus_t error);
inline Status status_of(cudaError_t error) { return ok(error) ? Status::ok : Status::failed; }
inline Status status_of(cublasStatus_t error) { return ok(error) ? Status::ok : Status::failed; }
const char* last_failure();

}  // namespace comera::kernels::cuda
