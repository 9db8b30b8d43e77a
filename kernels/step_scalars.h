// Numbers of a step in device memory that the host writes or reads: of AdamW (kernels/optimizer.h) and of the objective
// (kernels/rank_objective.h). They are apart from their ops because the state of a step holds them.
#pragma once

#include "kernels/types.h"

namespace comera::kernels {

// One per parameter group, in memory that the host may change between steps.
struct AdamwScalars {
  double learning_rate = 0, weight_decay = 0, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double correction1 = 1, correction2 = 1;  // 1 - beta^t
};

// Inputs and outputs of the late stage's decision, all in device memory. The host writes the inputs, the op writes the
// outputs.
struct RankState {
  // inputs
  double gamma = 0.01;  // early: weight of the penalty
  double rho_loss = 0.1, rho_size = 0.01;
  double surrogate_start = 1;               // S^ at the start of the run (mean penalty: 1)
  double late = 0;                          // 1 in the late stage
  double target_loss = 0, weight_loss = 0;  // L0, w1 = 1 / L (0: use the current loss)
  double target_size = 0, weight_size = 0;  // S0, w2 = 1 / S (0: use the current size)
  double reached = 0;                       // 1: target reached, the size penalty is off
  double weight_norm = 1;                   // factor of WeighedTensor::decay: 0 leaves the cores' norm out
  // outputs
  double size = 0;         // S
  double surrogate = 0;    // S^ (or the mean)
  double active = 0;       // entries above the threshold
  double pushes_size = 0;  // late: 1 if the size is further from its target than the loss
  double loss_weight = 1;  // factor of the task's gradient
  double size_weight = 0;  // factor of the penalty's gradient
};

}  // namespace comera::kernels
