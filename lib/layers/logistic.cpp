#include "lib/layers/logistic.h"

#include "kernels/logistic.h"

namespace comera::layers {

void Logistic::forward(Pass& pass, StepState& state, const Tensor& logits) {
  pass.walk.run(pass.backend().logistic_loss,
                kernels::LogisticLoss{labels_.elements(), logits.data, static_cast<const std::int32_t*>(labels_.data),
                                      &state.scalars.loss_scale, state.loss, &state.correct});
}

void Logistic::backward(Pass& pass, const Tensor& logits) {
  pass.walk.run(
      pass.backend().logistic_backward,
      kernels::LogisticBackward{labels_.elements(), logits.data, static_cast<const std::int32_t*>(labels_.data),
                                &pass.scalars->loss_scale, logits.data});
}

}  // namespace comera::layers
