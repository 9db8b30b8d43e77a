// The scalars of a step in device memory: the kernels read them by pointer, and the host reads them back after the
// step.
#pragma once

#include <cstddef>

#include "kernels/step_scalars.h"

namespace comera::layers {

constexpr int roles = 4;  // Role::core, diagonal, other, table

struct StepState {
  kernels::StepScalars scalars;
  kernels::RankState rank;
  alignas(double) std::byte update[960] = {};  // scalars of the weight update; its rule declares and writes them
  double loss[2] = {0, 0};        // mean loss of the step, summed over micro-batches (complex: real, imaginary)
  double correct = 0;             // correct predictions, over micro-batches
  double square_sum = 0;          // of the gradients at the end of the step, before clipping
  double applied_square_sum = 0;  // of those that the backward has applied (Parameter::at_once)
  double core_square_sum = 0;     // |G|^2 of beta |G|^2
};

}  // namespace comera::layers
