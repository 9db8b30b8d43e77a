// Stores the text of the last CUDA or cuBLAS error of each thread.
#include "kernels/cuda/gpu/errors.h"

#include <cstdio>

namespace comera::kernels::cuda {
namespace {

thread_local char words[256] = "";

}  // namespace

bool ok(cudaError_t error) {
  if (error == cudaSuccess) return true;
  std::snprintf(words, sizeof words, "%s (%s)", cudaGetErrorString(error), cudaGetErrorName(error));
  cudaGetLastError();  // clears errors that leave the context intact, so the next call does not report them
  return false;
}

bool ok(cublasStatus_t error) {
  if (error == CUBLAS_STATUS_SUCCESS) return true;
  std::snprintf(words, sizeof words, "cuBLAS: %s", cublasLtGetStatusString(error));
  return false;
}

const char* last_failure() { return words; }

}  // namespace comera::kernels::cuda
