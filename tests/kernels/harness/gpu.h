// Opens the GPU of this machine for tests, if there is one and the CUDA library is built.
#pragma once

#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/backend.h"
#include "kernels/host/cuda_devices.h"

namespace comera::kernels::test {

struct Gpu {
  const Backend* backend = nullptr;  // null: no GPU, `why` holds the reason
  void* stream = nullptr;
  std::string why;
};

inline Gpu open_gpu() {
  Gpu gpu;
  std::vector<CudaDevice> devices;
  const CudaState state = cuda_devices(devices);
  if (state != CudaState::ready) {
    gpu.why = sentence_of(state);
    return gpu;
  }
  const Backend* backend = cuda_backend(&gpu.why);
  if (!backend) return gpu;
  if (backend->device.open(0, &gpu.stream) == Status::ok) {
    gpu.backend = backend;
    const char* const launches = std::getenv("COMERA_LAUNCHES");  // as for the program
    backend->device.overlap_launches(!launches || std::string_view(launches) != "ordered");
  } else {
    gpu.why = backend->device.failure();
  }
  return gpu;
}

// Opened once per test program.
inline const Gpu& gpu() {
  static const Gpu opened = open_gpu();
  return opened;
}

}  // namespace comera::kernels::test
