// The CUDA backend table, for comera_cuda_backend() of libcomera_cuda.so and for the emulator.
#include "kernels/cuda/ops.h"
#include "kernels/cuda/runtime.h"

namespace comera::kernels::cuda {
namespace {

Backend make_table() {
  Backend b;
  b.name = "cuda";
  b.memory = device_memory();
  b.device = device_control();
  b.variant = variant_name();
  add_attention(b);
  add_cast(b);
  add_cross_entropy(b);
  add_distillation(b);
  add_elementwise(b);
  add_embedding(b);
  add_exact_rows(b);
  add_linear(b);
  add_norm(b);
  add_optimizer(b);
  add_pooling(b);
  add_rank_objective(b);
  add_rotary(b);
  add_tt_cores(b);
  add_tt_linear(b);
  add_ttm_embedding(b);
  add_ttm_merge(b);
  return b;
}

}  // namespace

const Backend& table() {
  static const Backend backend = make_table();
  return backend;
}

}  // namespace comera::kernels::cuda
