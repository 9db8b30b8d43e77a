// Receives finished gradients. A layer opens a tensor, adds to it and closes it. The sink decides how the tensor is
// stored: as an accumulator, a buffer to reduce over processes, a projection, or a tensor that is applied at once.
#pragma once

#include "lib/layers/parameter.h"
#include "lib/plan/walk.h"

namespace comera::layers {

using plan::Walk;

class Sink {
 public:
  virtual ~Sink() = default;
  // Called at the start of a step, before the first backward.
  virtual void begin(Walk& walk) = 0;
  // Returns a tensor of the parameter's shape. The layer adds (+=) its contribution to it.
  virtual Tensor open(Walk& walk, Parameter& parameter) = 0;
  virtual void close(Walk& walk, Parameter& parameter, Tensor& gradient) = 0;
};

// The plain sink: sums over micro-batches. Gradients that appear once per step (from_halves) share one tensor of the
// finishing walk, because there are hundreds of small ones. The first open() makes it and sets it to zero.
class AccumulateSink final : public Sink {
 public:
  // Adds the step-long gradients to `step_gradients`. begin() sets all of these to zero, gradients of the merged
  // factors included.
  AccumulateSink(Parameters& parameters, plan::Slab& step_gradients);

  void begin(Walk& walk) override;
  Tensor open(Walk& walk, Parameter& parameter) override;
  void close(Walk& walk, Parameter& parameter, Tensor& gradient) override;

  // The gradient of the parameter of that index, valid in the finishing walk between the model's finish() and
  // release().
  const Tensor& gradient(std::size_t index) const { return gradients_[index].tensor; }
  void release(Walk& walk);

 private:
  struct Gradient {
    bool from_halves = false;
    int slot = -1;  // in from_halves_ or step_gradients_
    Tensor tensor;
  };

  plan::Slab& step_gradients_;
  plan::Slab from_halves_;
  Tensor memory_;  // of from_halves_; empty if not allocated
  std::vector<Gradient> gradients_;
};

}  // namespace comera::layers
