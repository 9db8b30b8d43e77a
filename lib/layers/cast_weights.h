// Dense weights for products: the parameters themselves, or copies in the activation dtype if that differs.
#pragma once

#include <vector>

#include "lib/layers/training/parameter.h"
#include "lib/plan/walk.h"

namespace comera::kernels {
struct CastTensor;
}  // namespace comera::kernels

namespace comera::layers {

using plan::Walk;

// Returns a parameter's numbers for a call that follows at once, and loads them first if they are not in memory.
const Tensor& brought(const Walk& walk, Parameter& parameter);

class CastWeights {
 public:
  explicit CastWeights(DType dtype);
  ~CastWeights();

  // Returns an index for of().
  int add(Parameter* weight);
  // For a call that follows at once.
  Tensor of(const Walk& walk, int weight) const {
    return copied() ? copies_[weight] : brought(walk, *weights_[static_cast<std::size_t>(weight)]);
  }
  // Makes all copies again. Called before the first use of new weights.
  void prepare(Walk& walk);
  // Memory of the copies; empty if there are none.
  plan::Slab& copies() { return copies_; }
  const plan::Slab& copies() const { return copies_; }

 private:
  bool copied() const { return dtype_ != kernels::parameter_type(dtype_); }

  DType dtype_;
  std::vector<Parameter*> weights_;
  std::vector<kernels::CastTensor> casts_;
  plan::Slab copies_;
};

}  // namespace comera::layers
