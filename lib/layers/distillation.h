// Losses against a teacher, whose outputs lie in the batch: "teacher_hidden" [B*T, N], "teacher_embedding" [B, N] or "teacher_logits"
// [B, labels], in the element type of the machine. A batch without them has no such loss.
#pragma once

#include "kernels/distillation.h"
#include "lib/data/batch.h"
#include "lib/layers/pass.h"
#include "lib/layers/step_state.h"

namespace comera::layers {

constexpr const char* teacher_hidden = "teacher_hidden";
constexpr const char* teacher_embedding = "teacher_embedding";
constexpr const char* teacher_logits = "teacher_logits";

// Between vectors, by the settings' distance. `each_token`: [B*T, N], padding left out; else [B, N].
class VectorLoss {
 public:
  VectorLoss(const char* name, bool each_token) : name_(name), each_token_(each_token) {}

  // Adds to the step's loss; keeps x for the backward.
  void forward(Pass& pass, StepState& state, const data::Batch& batch, const Value& x);
  bool active() const { return !target_.empty(); }  // between the two calls
  // dx = or += the gradient; once after each training forward that was active.
  void backward(Pass& pass, const Tensor& dx, bool accumulate);

 private:
  kernels::VectorDistanceBackward shape_of(const Pass& pass) const;

  const char* name_;
  bool each_token_;
  std::int64_t columns_ = 0;
  Saved x_;
  Tensor target_, lengths_;
};

// Between logits [B, labels] that exist, by divergence at the settings' temperature.
class DivergenceLoss {
 public:
  void forward(Pass& pass, StepState& state, const data::Batch& batch, const Tensor& logits);
  bool active() const { return !teacher_.empty(); }
  // The gradient of the logits, which must still be what the forward saw; to be dropped.
  Tensor backward(Pass& pass, const Tensor& logits);

 private:
  Tensor teacher_, state_;
};

}  // namespace comera::layers
