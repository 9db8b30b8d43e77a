// Where finished gradients go. A layer asks for a place, adds to it and says that it is done; what the place is (an
// accumulator, a buffer to be reduced over processes, a projection, a tensor that is applied at once) is the sink's
// business, not the layer's.
#pragma once

#include "lib/layers/parameter.h"
#include "lib/plan/walk.h"

namespace comera::layers {

using plan::Walk;

class Sink {
 public:
  virtual ~Sink() = default;
  // Called where a step begins, before the first backward.
  virtual void begin(Walk& walk) = 0;
  // A tensor of the parameter's shape to add (+=) this contribution to.
  virtual Tensor open(Walk& walk, Parameter& parameter) = 0;
  virtual void close(Walk& walk, Parameter& parameter, Tensor& gradient) = 0;
};

// The plain sink: sums over micro-batches. Gradients that appear once per step (from_halves) are one tensor of the
// finishing walk, made and set to zero by the first open(): there are hundreds of small ones.
class AccumulateSink final : public Sink {
 public:
  // Adds the step-long gradients to `step_gradients`, which begin() sets to zero as a whole (halves' gradients
  // included).
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
  Tensor memory_;  // of from_halves_, while there is one
  std::vector<Gradient> gradients_;
};

}  // namespace comera::layers
