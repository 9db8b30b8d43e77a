// The arithmetic of levels, inline for the loops of lib/quant, which run over many numbers or steps at once.
#pragma once

#include <algorithm>
#include <cmath>

#include "lib/quant/grid.h"

// The program requires AVX2 (kernels/host/cpu_backend.h). Contracted products are off, so a function has the same
// results with and without it.
#define COMERA_AVX2 __attribute__((target("avx2")))

namespace comera::quant {

// Codes count from 0 to `last`. `zero`: the code, perhaps between two codes, of the number 0; of q4_1: of its least.
struct Levels {
  double zero = 0, last = 0;
  explicit Levels(Grid grid) : zero(kernels::grid_zero(grid)), last(codes_of(grid) - 1) {}

  // The code of the nearest level, a whole number.
  double nearest(float scale, float least, double value) const {
    const double code = std::nearbyint((value - static_cast<double>(least)) / static_cast<double>(scale) + zero);
    const double low = code > 0 ? code : 0, inside = low < last ? low : last;
    return scale == 0 ? std::trunc(zero) : inside;
  }
  double level(float scale, float least, double code) const {
    return static_cast<double>(scale * static_cast<float>(code - zero) + least);
  }
};

}  // namespace comera::quant
