// c = or += a b for words of bf16 numbers (pairs.h): by AMX where the build has it, otherwise by VDPBF16PS.
#pragma once

#include "kernels/cpu/bf16/register_product.h"
#if defined(__AMX_BF16__)
#include "kernels/cpu/amx/tile_product.h"
#endif

namespace comera::kernels::COMERA_CPU {

inline void multiply_pairs(const PairShape& s, const LeftWords& a, const Word* b, float* c) {
#if defined(__AMX_BF16__)
  if (s.m >= worth_tiles) return multiply_in_tiles(s, a, b, c);
#endif
  multiply_in_registers(s, a, b, c);
}

}  // namespace comera::kernels::COMERA_CPU
