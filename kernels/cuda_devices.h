// What CUDA there is, without linking to any of it: driver and backend are loaded through dlopen when they are asked
// for, so the program starts in milliseconds and runs on machines that never saw a card.
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
  not_built,  // libcomera_cuda.so is neither beside the program nor in ../lib
  no_driver,  // libcuda.so.1 is missing or does not start
  no_device,
};

CudaState cuda_devices(std::vector<CudaDevice>& devices);
const char* sentence_of(CudaState state);  // what is missing and what to do

constexpr int least_capability = 80;  // 10 * major + minor of the oldest card that the backend is built for

// The backend of libcomera_cuda.so, or null with *error set to a sentence: the library, or one that it needs, is
// missing or of another build. Loaded once and kept.
const Backend* cuda_backend(std::string* error);

}  // namespace comera::kernels
