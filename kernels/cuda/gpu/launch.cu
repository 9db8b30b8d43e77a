// Launches of kernels, which may begin before the launch in front of them has ended (programmatic dependent launch).
#include <cuda_runtime.h>

#include "kernels/cuda/common/device.h"
#include "kernels/cuda/gpu/errors.h"
#include "kernels/cuda/gpu/launch.h"

namespace comera::kernels::cuda {
namespace {

bool is_wanted = true;       // the program's choice
bool is_after_join = false;  // the queue has waited for another one since its last launch

// Code for sm_90 and newer begins with a wait, older code that the driver compiled for such a GPU does not. All kernels
// are built for the same GPUs and one process uses one GPU, so the first kernel tells.
bool kernels_wait(const void* kernel) {
  static const bool wait = [&] {
    int device = 0, major = 0;
    cudaFuncAttributes code{};
    return ok(cudaGetDevice(&device)) &&
           ok(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device)) && major >= 9 &&
           ok(cudaFuncGetAttributes(&code, kernel)) && code.ptxVersion >= 90;
  }();
  return wait;
}

}  // namespace

void overlap_launches(bool wanted) { is_wanted = wanted; }
void order_next_launch() { is_after_join = true; }

// In a recording the attribute makes the edge from the kernel before a programmatic one. Behind a copy, a fill or a
// product of cuBLASLt whose kernels do not ask for it, the runtime keeps the full dependency. Behind a join there are
// two dependencies, one of them a copy, so the launch stays an ordinary one.
Status launch_kernel(const Context& context, const Launch& where, const void* kernel, void** arguments) {
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = where.grid, config.blockDim = where.block, config.dynamicSmemBytes = where.shared_bytes;
  config.stream = static_cast<cudaStream_t>(context.stream);
  config.attrs = &early;
  config.numAttrs = is_wanted && !is_after_join && kernels_wait(kernel) ? 1 : 0;
  is_after_join = false;
  return status_of(cudaLaunchKernelExC(&config, kernel, arguments));
}

}  // namespace comera::kernels::cuda
