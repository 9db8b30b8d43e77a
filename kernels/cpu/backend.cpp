// The CPU table of one instruction set. This file is compiled once per set, with COMERA_ISA as its name.
#include "kernels/backend.h"

#include "kernels/cpu/ops.h"

namespace comera::kernels::COMERA_CPU {

static Backend make_table() {
  Backend b;
  b.name = "cpu";
  b.memory = host_memory();
#define COMERA_OP(name, Args) bind(b.name);
#include "kernels/ops.def"
  return b;
}

const Backend& table() {
  static const Backend backend = make_table();
  return backend;
}

}  // namespace comera::kernels::COMERA_CPU
