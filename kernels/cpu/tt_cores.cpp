#include "kernels/cpu/ops.h"

namespace comera::kernels::COMERA_CPU {

void add_tt_cores(Backend&) {}

}  // namespace comera::kernels::COMERA_CPU
