#include "lib/layers/gated.h"

#include <cstddef>

#include "kernels/elementwise.h"

namespace comera::layers {

namespace {

// up in a tensor of gate and up beside each other, and the rows of both. While memory is planned there is none.
void* up_of(const Tensor& gate_up) {
  return static_cast<std::byte*>(gate_up.data) +
         static_cast<std::size_t>(gate_up.shape[1] / 2) * size_of(gate_up.dtype);
}
kernels::GatedRows rows_of(const Tensor& gate_up) { return {gate_up.shape[1] / 2, gate_up.shape[1]}; }

}  // namespace

Value Gated::forward(Pass& pass, Tensor gate, Tensor up) {
  joined_ = false;
  Value y{gated(pass.walk, gate, up), pass.policy.saves() ? this : nullptr};
  pass.policy.take(pass.walk, gate, Use::value, gate_);
  pass.policy.take(pass.walk, up, Use::value, up_);
  return y;
}

Value Gated::forward_joined(Pass& pass, Tensor gate_up) {
  joined_ = true;
  Value y{gated_joined(pass.walk, gate_up), pass.policy.saves() ? this : nullptr};
  pass.policy.take(pass.walk, gate_up, Use::value, gate_);
  return y;
}

Tensor Gated::rebuild(Walk& walk) {
  if (joined_) {
    Tensor both = gate_->read(walk);
    Tensor y = gated_joined(walk, both);
    walk.drop(both);
    return y;
  }
  Tensor gate = gate_->read(walk), up = up_->read(walk);
  Tensor y = gated(walk, gate, up);
  walk.drop(gate);
  walk.drop(up);
  return y;
}

Tensor Gated::gated(Walk& walk, const Tensor& gate, const Tensor& up) const {
  Tensor y = walk.make("gated", gate.shape);
  walk.run(walk.backend().gated_forward,
           kernels::GatedForward{activation_, gate.elements(), gate.data, up.data, y.data, {}});
  return y;
}

Tensor Gated::gated_joined(Walk& walk, const Tensor& gate_up) const {
  Tensor y = walk.make("gated", {gate_up.shape[0], gate_up.shape[1] / 2});
  walk.run(walk.backend().gated_forward,
           kernels::GatedForward{activation_, y.elements(), gate_up.data, up_of(gate_up), y.data, rows_of(gate_up)});
  return y;
}

Tensor Gated::backward_joined(Pass& pass, Tensor dy) {
  const Tensor d = gate_->value(pass.walk);
  pass.walk.run(pass.backend().gated_backward, kernels::GatedBackward{activation_, dy.elements(), d.data, up_of(d),
                                                                      dy.data, d.data, up_of(d), rows_of(d)});
  pass.walk.drop(dy);
  return d;
}

void Gated::backward(Pass& pass, Tensor dy, Tensor& d_gate, Tensor& d_up) {
  d_gate = gate_->value(pass.walk);
  d_up = up_->value(pass.walk);
  pass.walk.run(
      pass.backend().gated_backward,
      kernels::GatedBackward{activation_, dy.elements(), d_gate.data, d_up.data, dy.data, d_gate.data, d_up.data, {}});
  pass.walk.drop(dy);
}

}  // namespace comera::layers
