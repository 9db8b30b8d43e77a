// What CUDA there is, without linking to any of it: the driver is asked through dlopen, so the program starts in milliseconds and runs
// on machines that never saw a card.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace comera::kernels {

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

}  // namespace comera::kernels
