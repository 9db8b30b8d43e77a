// The table of instruction set v4amx: that of v4bf16, and for bf16 calls with large products those of this build.
#include "kernels/backend.h"

#include "kernels/cpu/bf16/by_type.h"

namespace comera::kernels {

namespace cpu_v4bf16 {
const Backend& table();
}

namespace COMERA_CPU {

static Backend make_table() {
  Backend b = cpu_v4bf16::table();
  join(b.linear_forward), join(b.linear_backward), join(b.product), join(b.matmul);
  join(b.tt_linear_forward), join(b.tt_linear_backward);
  join(b.tt_output_product), join(b.code_product);
  join(b.attention_forward), join(b.attention_backward), join(b.coded_attention_backward);
  return b;
}

const Backend& table() {
  static const Backend backend = make_table();
  return backend;
}

}  // namespace COMERA_CPU
}  // namespace comera::kernels
