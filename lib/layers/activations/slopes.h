// Keeps the slope of an activation in two bits per element (kernels/slope_codes.h) in place of the activation's input.
// The forward is exact. The backward multiplies by one of four slopes.
#pragma once

#include <memory>

#include "kernels/slope_codes.h"
#include "lib/layers/training/saved.h"

namespace comera::layers {

enum class SlopeFit : std::uint8_t {
  derivative,  // the step function nearest to the derivative in the mean square for inputs from N(0, 1)
  primitive,   // the derivative of three ReLUs near the activation (ReGELU2, ReSiLU2 of Approx-BP)
};

bool has_slope_table(kernels::Activation activation);  // GELU and SiLU
kernels::SlopeTable slope_table(kernels::Activation activation, SlopeFit fit);

// For values of Use::slope whose activation has a table.
std::unique_ptr<Keeper> make_slope_keeper(SlopeFit fit);

}  // namespace comera::layers
