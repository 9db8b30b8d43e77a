// The CPU table of one instruction set. This file is compiled once per set, with COMERA_ISA as its name.
#include "kernels/backend.h"

#include "kernels/cpu/ops.h"

namespace comera::kernels::COMERA_CPU {

static Backend make_table() {
  Backend b;
  b.name = "cpu";
  b.memory = host_memory();
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

const Backend& table() {
  static const Backend backend = make_table();
  return backend;
}

}  // namespace comera::kernels::COMERA_CPU
