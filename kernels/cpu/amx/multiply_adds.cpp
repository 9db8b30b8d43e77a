// Measures the peak rate of products of tiles of bf16 numbers, from registers alone (as ../multiply_adds.cpp for
// floats).
#include "kernels/cpu/amx/tile_product.h"

namespace comera::kernels::COMERA_CPU {

double multiply_adds(std::int64_t rounds) {
  configure_tiles();
  for (std::int64_t round = 0; round < rounds; ++round) {  // these instructions are volatile: none is removed
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  return 2.0 * 4 * side * side * 2 * side * static_cast<double>(rounds);
}

}  // namespace comera::kernels::COMERA_CPU
