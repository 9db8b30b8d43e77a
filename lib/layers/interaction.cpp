#include "lib/layers/interaction.h"

#include "kernels/interaction.h"

namespace comera::layers {

Tensor Interaction::forward(Pass& pass, std::vector<Tensor> x) {
  const auto vectors = static_cast<std::int64_t>(x.size());
  kernels::InteractionForward call;
  call.rows = pass.sequences, call.vectors = vectors, call.columns = columns_;
  for (std::size_t i = 0; i < x.size(); ++i) call.x[i] = x[i].data;
  Tensor y = pass.walk.make("interactions", {pass.sequences, kernels::interaction_columns(vectors, columns_)});
  call.y = y.data;
  pass.walk.run(pass.backend().interaction_forward, call);
  if (pass.policy.saves()) {
    x_ = std::move(x);
  } else {
    for (Tensor& one : x) pass.walk.drop(one);
  }
  return y;
}

std::vector<Tensor> Interaction::backward(Pass& pass, Tensor dy) {
  kernels::InteractionBackward call;
  call.rows = pass.sequences, call.vectors = static_cast<std::int64_t>(x_.size()), call.columns = columns_;
  call.dy = dy.data;
  std::vector<Tensor> dx;
  for (std::size_t i = 0; i < x_.size(); ++i) {
    dx.push_back(pass.walk.make("d_vector", x_[i].shape));
    call.x[i] = x_[i].data, call.dx[i] = dx[i].data;
  }
  pass.walk.run(pass.backend().interaction_backward, call);
  for (Tensor& one : x_) pass.walk.drop(one);
  pass.walk.drop(dy);
  return dx;
}

}  // namespace comera::layers
