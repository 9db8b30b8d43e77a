// The logistic loss of one logit per example.
#pragma once

#include "lib/data/batch.h"
#include "lib/layers/training/pass.h"
#include "lib/layers/training/step_state.h"
#include "lib/plan/inputs.h"

namespace comera::layers {

// loss = sum over the examples with a label (the batch's "labels", 0 or 1) of log(1 + exp(z)) - label z, times the
// step's loss scale.
class Logistic {
 public:
  void declare(const data::Batch& batch, plan::Inputs& inputs) { inputs.add(batch["labels"], labels_); }
  // logits [B, 1]; adds to the step's loss and to its number of correct predictions.
  void forward(Pass& pass, StepState& state, const Tensor& logits);
  // Replaces the logits by their gradients.
  void backward(Pass& pass, const Tensor& logits);

 private:
  Tensor labels_;  // input
};

}  // namespace comera::layers
