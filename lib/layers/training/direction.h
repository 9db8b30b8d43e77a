// The vector on which a dense layer keeps the groups of its input (VeLoRA, kernels/direction.h). It is a state of the
// training: zero at the start, set by the first forward, and stored in checkpoints.
#pragma once

#include "lib/layers/training/parameter.h"

namespace comera::layers {

struct Direction {
  std::int64_t size = 0;  // inputs per group, M
  Tensor vector = {};     // [M], of the parameters' type
};

}  // namespace comera::layers
