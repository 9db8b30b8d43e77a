#include "lib/layers/squared_error.h"

#include <cmath>

#include "kernels/distillation.h"

namespace comera::layers {

// Each text is a sequence of one vector with one number. Its length is 1 if the score is known and 0 otherwise.
void SquaredError::declare(const data::Batch& batch, plan::Inputs& inputs) {
  const auto given = batch["scores"].as<const float>();
  numbers_.resize(given.size() * size_of(dtype_));
  known_.resize(given.size());
  const TensorView view{numbers_.data(), dtype_, {batch.sequences, 1}};
  for (std::size_t b = 0; b < given.size(); ++b) {
    known_[b] = std::isnan(given[b]) ? 0 : 1;
    store({view.data, view.dtype, view.shape, -1}, static_cast<std::int64_t>(b),
          known_[b] ? static_cast<double>(given[b]) : 0);
  }
  inputs.add(view, scores_);
  inputs.add(known_, counts_);
}

void SquaredError::forward(Pass& pass, StepState& state, const Tensor& predictions) {
  Walk& walk = pass.walk;
  Tensor distances = walk.make_statistic("distances", {pass.sequences});
  walk.run(pass.backend().vector_distance,
           kernels::VectorDistance{.distance = kernels::Distance::squared,
                                   .sequences = pass.sequences,
                                   .length = 1,
                                   .columns = 1,
                                   .lengths = static_cast<const std::int32_t*>(counts_.data),
                                   .x = predictions.data,
                                   .target = scores_.data,
                                   .weight = 1,
                                   .scale = &state.scalars.loss_scale,
                                   .distances = distances.data,
                                   .loss = state.loss});
  walk.drop(distances);
}

void SquaredError::backward(Pass& pass, const Tensor& predictions, const Tensor& d_predictions) {
  pass.walk.run(pass.backend().vector_distance_backward,
                kernels::VectorDistanceBackward{.distance = kernels::Distance::squared,
                                                .sequences = pass.sequences,
                                                .length = 1,
                                                .columns = 1,
                                                .lengths = static_cast<const std::int32_t*>(counts_.data),
                                                .x = predictions.data,
                                                .target = scores_.data,
                                                .weight = 1,
                                                .scale = &pass.scalars->loss_scale,
                                                .dx = d_predictions.data,
                                                .accumulate = false});
}

}  // namespace comera::layers
