// The product of a gated feed-forward layer, y = act(gate) * up (Shazeer 2020, arXiv 2002.05202).
#pragma once

#include "lib/layers/training/pass.h"

namespace comera::layers {

class Gated final : public Producer {
 public:
  explicit Gated(kernels::Activation activation) : activation_(activation) {}

  // Takes ownership of gate and up, [K, N]. The caller drops the output.
  Value forward(Pass& pass, Tensor gate, Tensor up);
  Tensor rebuild(Walk& walk) override;
  // Takes ownership of dy. The gradients replace gate and up in their memory; the caller drops them.
  void backward(Pass& pass, Tensor dy, Tensor& d_gate, Tensor& d_up);

 private:
  Tensor gated(Walk& walk, const Tensor& gate, const Tensor& up) const;

  kernels::Activation activation_;
  SavedPtr gate_, up_;
};

}  // namespace comera::layers
