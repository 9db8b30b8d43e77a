// The mean squared error of regression: one predicted number per text.
#pragma once

#include <vector>

#include "lib/data/batch.h"
#include "lib/layers/training/pass.h"
#include "lib/layers/training/step_state.h"
#include "lib/plan/inputs.h"

namespace comera::layers {

// loss = sum over the texts with a known score of (prediction - score)^2, times the step's loss scale. The scores are
// the batch's "scores".
class SquaredError {
 public:
  explicit SquaredError(DType dtype) : dtype_(dtype) {}

  void declare(const data::Batch& batch, plan::Inputs& inputs);
  // predictions [B, 1]; adds to the step's loss.
  void forward(Pass& pass, StepState& state, const Tensor& predictions);
  // Writes d_predictions [B, 1], with 0 for unknown scores. Called once after each training forward, with the
  // predictions of that forward.
  void backward(Pass& pass, const Tensor& predictions, const Tensor& d_predictions);

 private:
  DType dtype_;                      // activation dtype
  std::vector<std::byte> numbers_;   // the scores in the activation dtype; 0 if not known
  std::vector<std::int32_t> known_;  // 1 if the score is known
  Tensor scores_, counts_;           // inputs
};

}  // namespace comera::layers
