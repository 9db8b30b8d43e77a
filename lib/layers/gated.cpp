#include "lib/layers/gated.h"

#include <utility>

namespace comera::layers {

Value Gated::forward(Pass& pass, Tensor gate, Tensor up) {
  gate_ = gate, up_ = up;
  Value y{rebuild(pass.walk), pass.policy.saves() ? this : nullptr};
  if (pass.policy.saves()) return y;
  pass.walk.drop(gate_);
  pass.walk.drop(up_);
  return y;
}

Tensor Gated::rebuild(Walk& walk) {
  Tensor y = walk.make("gated", gate_.shape);
  walk.run(walk.backend().gated_forward,
           kernels::GatedForward{activation_, gate_.elements(), gate_.data, up_.data, y.data});
  return y;
}

void Gated::backward(Pass& pass, Tensor dy, Tensor& d_gate, Tensor& d_up) {
  d_gate = std::exchange(gate_, Tensor{});
  d_up = std::exchange(up_, Tensor{});
  pass.walk.run(pass.backend().gated_backward, kernels::GatedBackward{activation_, dy.elements(), d_gate.data,
                                                                      d_up.data, dy.data, d_gate.data, d_up.data});
  pass.walk.drop(dy);
}

}  // namespace comera::layers
