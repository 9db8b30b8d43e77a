// The logistic loss of single logits.
#pragma once

#include "lib/data/batch.h"
#include "lib/layers/training/pass.h"
#include "lib/layers/training/step_state.h"
#include "lib/plan/inputs.h"

namespace comera::layers {

// loss = sum over the logits with a label, 0 or 1, of log(1 + exp(z)) - label z, times the
// step's loss scale.
class Logistic {
 public:
  // labels: one per logit, -1 if it is not known.
  void declare(const TensorView& labels, plan::Inputs& inputs) { inputs.add(labels, labels_); }
  // logits: as many as labels, in their order; adds to the step's loss and to its number of correct predictions.
  void forward(Pass& pass, StepState& state, const Tensor& logits);
  // Replaces the logits by their gradients.
  void backward(Pass& pass, const Tensor& logits);

 private:
  Tensor labels_;  // input
};

}  // namespace comera::layers
