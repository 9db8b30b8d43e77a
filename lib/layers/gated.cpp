#include "lib/layers/gated.h"

#include "kernels/elementwise.h"

namespace comera::layers {

Value Gated::forward(Pass& pass, Tensor gate, Tensor up) {
  Value y{gated(pass.walk, gate, up), pass.policy.saves() ? this : nullptr};
  pass.policy.take(pass.walk, gate, Use::value, gate_);
  pass.policy.take(pass.walk, up, Use::value, up_);
  return y;
}

Tensor Gated::rebuild(Walk& walk) {
  Tensor gate = gate_->read(walk), up = up_->read(walk);
  Tensor y = gated(walk, gate, up);
  walk.drop(gate);
  walk.drop(up);
  return y;
}

Tensor Gated::gated(Walk& walk, const Tensor& gate, const Tensor& up) const {
  Tensor y = walk.make("gated", gate.shape);
  walk.run(walk.backend().gated_forward,
           kernels::GatedForward{activation_, gate.elements(), gate.data, up.data, y.data});
  return y;
}

void Gated::backward(Pass& pass, Tensor dy, Tensor& d_gate, Tensor& d_up) {
  d_gate = gate_->value(pass.walk);
  d_up = up_->value(pass.walk);
  pass.walk.run(pass.backend().gated_backward, kernels::GatedBackward{activation_, dy.elements(), d_gate.data,
                                                                      d_up.data, dy.data, d_gate.data, d_up.data});
  pass.walk.drop(dy);
}

}  // namespace comera::layers
