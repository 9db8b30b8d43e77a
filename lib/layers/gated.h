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
  Tensor rebuild(Walk& walk) override;
  // Takes ownership of dy. The gradients replace gate and up in their memory; the caller drops them.
  void backward(Pass& pass, Tensor dy, Tensor& d_gate, Tensor& d_up);

 private:
  Tensor gated(Walk& walk, const Tensor& gate, const Tensor& up) const;

  kernels::Activation activation_;
  Slot gate_, up_;
};

}  // namespace comera::layers
