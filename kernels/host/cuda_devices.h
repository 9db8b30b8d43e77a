// Lists CUDA devices and loads the CUDA backend. The program does not link to CUDA: driver and backend are loaded
// through dlopen on first use, so it starts in milliseconds and runs on machines without a GPU.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace comera::kernels {

struct Backend;

struct CudaDevice {
  std::string name;
  std::uint64_t bytes = 0;
  int major = 0, minor = 0;  // compute capability
};

enum class CudaState : std::uint8_t {
  ready,
  not_built,  // libcomera_cuda.so is neither in the program's folder nor in ../lib
  no_driver,  // libcuda.so.1 is missing or fails to initialise
  no_device,
};

CudaState cuda_devices(std::vector<CudaDevice>& devices);
const char* sentence_of(CudaState state);  // message for the user: the cause and the remedy

constexpr int least_capability = 80;  // 10 * major + minor of the oldest supported GPU

// Returns the backend of libcomera_cuda.so. Returns null and sets *error to a message if the library, or one that it
// depends on, is missing or belongs to another build. The library is loaded once and never unloaded.
const Backend* cuda_backend(std::string* error);

}  // namespace comera::kernels
