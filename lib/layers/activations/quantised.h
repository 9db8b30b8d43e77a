// Keeps copies of the values that the backward reads in bf16 or integers (kernels/group_codes.h). Every consumer of one
// tensor reads the same copy.
#pragma once

#include <memory>

#include "lib/layers/training/saved.h"

namespace comera::layers {

struct QuantisedSettings {
  int bits = 8;             // 16: bf16; 8 or 4: 8.5 or 4.5 bits per number with the ranges
  bool stochastic = false;  // rounds without bias, with random numbers of the step
};

std::unique_ptr<Keeper> make_quantised_keeper(const QuantisedSettings& settings);

}  // namespace comera::layers
