// The dot products of an example's feature vectors (kernels/interaction.h).
#pragma once

#include <vector>

#include "lib/layers/training/pass.h"

namespace comera::layers {

class Interaction {
 public:
  explicit Interaction(std::int64_t columns) : columns_(columns) {}

  // x: F of [B, N], which it takes over. Returns [B, N + F (F - 1) / 2]; the caller drops it.
  Tensor forward(Pass& pass, std::vector<Tensor> x);
  // Takes ownership of dy. Returns the gradients of x, which the caller drops.
  std::vector<Tensor> backward(Pass& pass, Tensor dy);

 private:
  std::int64_t columns_;
  std::vector<Tensor> x_;
};

}  // namespace comera::layers
