#include "lib/layers/distillation.h"

#include "kernels/distillation.h"
#include "lib/layers/loss.h"

namespace comera::layers {

kernels::VectorDistanceBackward VectorLoss::shape_of(const Pass& pass) const {
  kernels::VectorDistanceBackward shape;
  shape.distance = pass.distillation->distance;
  shape.sequences = pass.sequences, shape.length = each_token_ ? pass.length : 1, shape.columns = columns_;
  shape.lengths = each_token_ ? static_cast<const std::int32_t*>(lengths_.data) : nullptr;
  shape.weight = pass.distillation->weight;
  return shape;
}

void VectorLoss::declare(const data::Batch& batch, const Distillation& distillation, plan::Inputs& inputs) {
  target_ = lengths_ = {};
  if (!distillation.active || !batch.has(name_)) return;
  inputs.add(batch[name_], target_);
  if (each_token_) inputs.add(batch["lengths"], lengths_);
}

void VectorLoss::forward(Pass& pass, StepState& state, const Value& x) {
  if (!active()) return;
  Walk& walk = pass.walk;
  const std::int64_t vectors = pass.sequences * (each_token_ ? pass.length : 1);
  columns_ = x.tensor.elements() / vectors;
  const kernels::VectorDistanceBackward shape = shape_of(pass);
  Tensor distances = walk.make_statistic("distances", {vectors});
  walk.run(pass.backend().vector_distance, kernels::VectorDistance{.distance = shape.distance,
                                                                   .sequences = shape.sequences,
                                                                   .length = shape.length,
                                                                   .columns = shape.columns,
                                                                   .lengths = shape.lengths,
                                                                   .x = x.tensor.data,
                                                                   .target = target_.data,
                                                                   .weight = shape.weight,
                                                                   .scale = &state.scalars.sequence_scale,
                                                                   .distances = distances.data,
                                                                   .loss = state.loss});
  walk.drop(distances);
  if (pass.policy.saves()) pass.policy.save(walk, x, Use::value, x_);
}

void VectorLoss::backward(Pass& pass, const Tensor& dx, bool accumulate) {
  Tensor x = x_->value(pass.walk);
  kernels::VectorDistanceBackward call = shape_of(pass);
  call.x = x.data, call.target = target_.data, call.scale = &pass.scalars->sequence_scale;
  call.dx = dx.data, call.accumulate = accumulate;
  pass.walk.run(pass.backend().vector_distance_backward, call);
  pass.walk.drop(x);
}

void DivergenceLoss::declare(const data::Batch& batch, const Distillation& distillation, plan::Inputs& inputs) {
  teacher_ = {};
  if (distillation.active && batch.has(teacher_logits)) inputs.add(batch[teacher_logits], teacher_);
}

void DivergenceLoss::forward(Pass& pass, StepState& state, const Tensor& logits) {
  if (!active()) return;
  Walk& walk = pass.walk;
  const std::int64_t rows = logits.shape[0], columns = logits.shape[1];
  const double temperature = pass.distillation->temperature;
  state_ = walk.make_statistic("divergence", {rows, kernels::divergence_state});
  walk.run(pass.backend().divergence_chunk, kernels::DivergenceChunk{.rows = rows,
                                                                     .columns = columns,
                                                                     .start = true,
                                                                     .temperature = temperature,
                                                                     .logits = logits.data,
                                                                     .ld = columns,
                                                                     .teacher = teacher_.data,
                                                                     .ld_teacher = columns,
                                                                     .state = state_.data});
  walk.run(pass.backend().divergence_loss,
           kernels::DivergenceLoss{rows, temperature, nullptr, state_.data, pass.distillation->weight,
                                   &state.scalars.sequence_scale, state.loss});
  if (!pass.policy.saves()) walk.drop(state_);
}

Tensor DivergenceLoss::backward(Pass& pass, const Tensor& logits) {
  const std::int64_t rows = logits.shape[0], columns = logits.shape[1];
  Tensor d_logits = pass.walk.make("d_logits", {rows, columns});
  pass.walk.run(pass.backend().divergence_backward,
                kernels::DivergenceBackward{.rows = rows,
                                            .columns = columns,
                                            .temperature = pass.distillation->temperature,
                                            .targets = nullptr,
                                            .logits = logits.data,
                                            .ld = columns,
                                            .teacher = teacher_.data,
                                            .ld_teacher = columns,
                                            .state = state_.data,
                                            .weight = pass.distillation->weight,
                                            .scale = &pass.scalars->sequence_scale,
                                            .d_logits = d_logits.data});
  pass.walk.drop(state_);
  return d_logits;
}

void VocabularyDivergence::declare(const data::Batch& batch, const Distillation& distillation, std::int64_t rows,
                                   plan::Inputs& inputs) {
  input_ = {};
  if (!distillation.active || !batch.has(teacher_decoder_input)) return;
  inputs.add(batch[teacher_decoder_input], input_);
  distillation.teacher->declare(rows, inputs);
  distillation.teacher->table().declare(inputs);
}

void VocabularyDivergence::add(Pass& pass, const Tensor& logits, std::int64_t first) {
  const std::int64_t rows = logits.shape[0], columns = logits.shape[1];
  if (first == 0) state_ = pass.walk.make_statistic("divergence", {rows, kernels::divergence_state});
  Tensor teacher = pass.distillation->teacher->chunk_logits(pass, input_, first, columns);
  pass.walk.run(pass.backend().divergence_chunk, kernels::DivergenceChunk{.rows = rows,
                                                                          .columns = columns,
                                                                          .start = first == 0,
                                                                          .temperature = pass.distillation->temperature,
                                                                          .logits = logits.data,
                                                                          .ld = columns,
                                                                          .teacher = teacher.data,
                                                                          .ld_teacher = columns,
                                                                          .state = state_.data});
  pass.walk.drop(teacher);
}

void VocabularyDivergence::finish(Pass& pass, StepState& state, const Tensor& targets) {
  pass.walk.run(pass.backend().divergence_loss,
                kernels::DivergenceLoss{state_.shape[0], pass.distillation->temperature,
                                        static_cast<const std::int32_t*>(targets.data), state_.data,
                                        pass.distillation->weight, &state.scalars.loss_scale, state.loss});
}

Tensor VocabularyDivergence::backward(Pass& pass, const Tensor& logits, std::int64_t first, const Tensor& targets) {
  const std::int64_t rows = logits.shape[0], columns = logits.shape[1];
  Tensor teacher = pass.distillation->teacher->chunk_logits(pass, input_, first, columns);
  Tensor d_logits = pass.walk.make("d_logits", {rows, columns});
  pass.walk.run(pass.backend().divergence_backward,
                kernels::DivergenceBackward{.rows = rows,
                                            .columns = columns,
                                            .temperature = pass.distillation->temperature,
                                            .targets = static_cast<const std::int32_t*>(targets.data),
                                            .logits = logits.data,
                                            .ld = columns,
                                            .teacher = teacher.data,
                                            .ld_teacher = columns,
                                            .state = state_.data,
                                            .weight = pass.distillation->weight,
                                            .scale = &pass.scalars->loss_scale,
                                            .d_logits = d_logits.data});
  pass.walk.drop(teacher);
  return d_logits;
}

void VocabularyDivergence::release(Pass& pass) { pass.walk.drop(state_); }

}  // namespace comera::layers
