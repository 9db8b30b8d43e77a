// Losses against a teacher. Its outputs are in the batch: "teacher_hidden" [B*T, N], "teacher_embedding" [B, N],
// "teacher_logits" [B, labels] or "teacher_decoder_input" [P, its own N], in the element type of the machine. A batch
// without them has no such loss.
#pragma once

#include "lib/data/batch.h"
#include "lib/layers/training/pass.h"
#include "lib/layers/training/step_state.h"
#include "lib/plan/inputs.h"

namespace comera::layers {

constexpr const char* teacher_hidden = "teacher_hidden";
constexpr const char* teacher_embedding = "teacher_embedding";
constexpr const char* teacher_logits = "teacher_logits";
constexpr const char* teacher_decoder_input = "teacher_decoder_input";

// Loss between vectors by the distance of the settings. `each_token`: [B*T, N] without padding; else [B, N].
class VectorLoss {
 public:
  VectorLoss(const char* name, bool each_token) : name_(name), each_token_(each_token) {}

  // Lists the inputs of the loss if the batch has them.
  void declare(const data::Batch& batch, const Distillation& distillation, plan::Inputs& inputs);
  // Adds to the step's loss and saves x for the backward. Does nothing without inputs.
  void forward(Pass& pass, StepState& state, const Value& x);
  bool active() const { return !target_.empty(); }
  // dx = or += the gradient. Called once after each training forward that was active.
  void backward(Pass& pass, const Tensor& dx, bool accumulate);

 private:
  kernels::VectorDistanceBackward shape_of(const Pass& pass) const;

  const char* name_;
  bool each_token_;
  std::int64_t columns_ = 0;
  Slot x_;
  Tensor target_, lengths_;
};

// Divergence between logits [B, labels] at the temperature of the settings, for logits that are in memory.
class DivergenceLoss {
 public:
  // Lists the inputs of the loss if the batch has them.
  void declare(const data::Batch& batch, const Distillation& distillation, plan::Inputs& inputs);
  void forward(Pass& pass, StepState& state, const Tensor& logits);
  bool active() const { return !teacher_.empty(); }
  // Returns the gradient of the logits, which must be those of the forward. The caller drops it.
  Tensor backward(Pass& pass, const Tensor& logits);

 private:
  Tensor teacher_, state_;
};

// Divergence between the vocabulary logits of student and teacher at the temperature of the settings: the mean over the
// rows with a target. The logits of both models are in memory for one chunk of the vocabulary at a time. The batch
// holds the input of the teacher's decoder, which computes the logits of a chunk in the forward and again in the
// backward.
class VocabularyDivergence {
 public:
  // Lists the inputs for `rows` rows if the batch has them.
  void declare(const data::Batch& batch, const Distillation& distillation, std::int64_t rows, plan::Inputs& inputs);
  bool active() const { return !input_.empty(); }
  // Adds the next chunk of the student's logits, words [first, first + columns).
  void add(Pass& pass, const Tensor& logits, std::int64_t first);
  // Adds to the step's loss. targets: those of the rows, -1 for rows without a target.
  void finish(Pass& pass, StepState& state, const Tensor& targets);
  // Returns the gradient of a chunk of logits, which must be those of the forward. The caller drops it.
  Tensor backward(Pass& pass, const Tensor& logits, std::int64_t first, const Tensor& targets);
  void release(Pass& pass);

 private:
  Tensor input_, state_;
};

}  // namespace comera::layers
