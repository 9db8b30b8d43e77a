// Reads the energy counter of a GPU through NVML.
#include "kernels/cuda/gpu/energy.h"

#include <cuda_runtime.h>
#include <dlfcn.h>

#include "kernels/cuda/gpu/errors.h"

namespace comera::kernels::cuda {
namespace {

// The functions of NVML's C interface that are used here. A result of 0 is NVML_SUCCESS.
struct Nvml {
  using Gpu = void*;
  int (*start)() = nullptr;
  int (*find)(const char* bus, Gpu* gpu) = nullptr;
  int (*energy)(Gpu gpu, unsigned long long* millijoules) = nullptr;

  Nvml() {
    void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) return;
    start = reinterpret_cast<decltype(start)>(dlsym(library, "nvmlInit_v2"));
    find = reinterpret_cast<decltype(find)>(dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2"));
    energy = reinterpret_cast<decltype(energy)>(dlsym(library, "nvmlDeviceGetTotalEnergyConsumption"));
    usable = start && find && energy && start() == 0;
  }
  bool usable = false;
};

}  // namespace

// Finds the GPU by its PCI bus id, because NVML and CUDA number GPUs differently.
Status joules(double* used) {
  static const Nvml nvml;
  int device = 0;
  char bus[32];
  if (!nvml.usable) return Status::failed;
  if (!ok(cudaGetDevice(&device)) || !ok(cudaDeviceGetPCIBusId(bus, sizeof bus, device))) return Status::failed;
  Nvml::Gpu gpu = nullptr;
  unsigned long long millijoules = 0;
  if (nvml.find(bus, &gpu) != 0 || nvml.energy(gpu, &millijoules) != 0) return Status::failed;
  *used = 1e-3 * static_cast<double>(millijoules);
  return Status::ok;
}

}  // namespace comera::kernels::cuda
