// Losses against a teacher, whose outputs lie in the batch: "teacher_hidden" [B*T, N], "teacher_embedding" [B, N],
// "teacher_logits" [B, labels] or "teacher_decoder_input" [P, its own N], in the element type of the machine. A batch
// without them has no such loss.
#pragma once

#include "kernels/distillation.h"
#include "lib/data/batch.h"
#include "lib/layers/pass.h"
#include "lib/layers/step_state.h"

namespace comera::layers {

constexpr const char* teacher_hidden = "teacher_hidden";
constexpr const char* teacher_embedding = "teacher_embedding";
constexpr const char* teacher_logits = "teacher_logits";
constexpr const char* teacher_decoder_input = "teacher_decoder_input";

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

// Between the words' logits of student and teacher, by divergence at the settings' temperature: the mean over the rows
// that predict a word. Both sides' logits exist for a chunk of the vocabulary at a time: the batch holds what the
// teacher's decoder reads, and that decoder gives the logits of a chunk, in the forward and again in the backward.
class VocabularyDivergence {
 public:
  void begin(Pass& pass, const data::Batch& batch);
  bool active() const { return !input_.empty(); }  // from begin() to release()
  // The next chunk of the student's logits, words [first, first + columns).
  void add(Pass& pass, const Tensor& logits, std::int64_t first);
  // Adds to the step's loss. targets: those of the rows, -1 where nothing is predicted.
  void finish(Pass& pass, StepState& state, const Tensor& targets);
  // The gradient of a chunk of logits, which must be what the forward saw; to be dropped.
  Tensor backward(Pass& pass, const Tensor& logits, std::int64_t first, const Tensor& targets);
  void release(Pass& pass);

 private:
  Tensor input_, words_, state_;
};

}  // namespace comera::layers
