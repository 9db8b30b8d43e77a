// The CUDA backend table, for comera_cuda_backend() of libcomera_cuda.so and for the emulator.
#include "kernels/cuda/common/runtime.h"
#include "kernels/cuda/ops.h"

namespace comera::kernels::cuda {
namespace {

Backend make_table() {
  Backend b;
  b.name = "cuda";
  b.memory = device_memory();
  b.device = device_control();
  b.variant = variant_name();
#define COMERA_OP(name, Args) bind(b.name);
#include "kernels/ops.def"
  return b;
}

}  // namespace

const Backend& table() {
  static const Backend backend = make_table();
  return backend;
}

}  // namespace comera::kernels::cuda
