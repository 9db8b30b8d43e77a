// The product of a gated feed-forward layer, y = act(gate) * up (Shazeer 2020, arXiv 2002.05202).
#pragma once

#include "lib/layers/training/pass.h"

namespace comera::layers {

class Gated final : public Producer {
 public:
  // `name`: of the layer, for rules of activations.
  Gated(const std::string& name, kernels::Activation activation) : activation_(activation), gate_{name}, up_{name} {}

  // Takes ownership of gate and up, [K, N]. The caller drops the output.
  Value forward(Pass& pass, Tensor gate, Tensor up);
  // The same for gate and up beside each other in one tensor [K, 2 N].
  Value forward_joined(Pass& pass, Tensor gate_up);
  Tensor rebuild(Walk& walk) override;
  // Takes ownership of dy. The gradients replace gate and up in their memory; the caller drops them.
  void backward(Pass& pass, Tensor dy, Tensor& d_gate, Tensor& d_up);
  Tensor backward_joined(Pass& pass, Tensor dy);

 private:
  Tensor gated(Walk& walk, const Tensor& gate, const Tensor& up) const;
  Tensor gated_joined(Walk& walk, const Tensor& gate_up) const;

  kernels::Activation activation_;
  Slot gate_, up_;       // joined: gate_ is both
  bool joined_ = false;  // in this pass
};

}  // namespace comera::layers
