// Receives finished gradients. A layer opens a tensor, adds to it and closes it. The sink decides how the tensor is
// stored: as an accumulator, a buffer to reduce over processes, a projection, or a tensor that is applied at once.
#pragma once

#include <functional>
#include <memory>

#include "lib/layers/training/parameter.h"
#include "lib/plan/walk.h"

namespace comera::layers {

using plan::Walk;

class Sink {
 public:
  virtual ~Sink() = default;
  // The update of parameters that are applied at once (Parameter::at_once), in the walk of their backward. Set before
  // the first walk.
  using Apply = std::function<void(Walk& walk, const Parameter& parameter, const Tensor& gradient)>;
  virtual void apply_by(Apply apply) = 0;
  // Called at the start of a step, before the first backward.
  virtual void begin(Walk& walk) = 0;
  // Returns a tensor of the parameter's gradient_shape(). The layer adds (+=) its contribution to it.
  virtual Tensor open(Walk& walk, Parameter& parameter) = 0;
  // One contribution has been added. Further ones may follow: of other chunks, of a table that is used twice, of later
  // micro-batches.
  virtual void close(Walk& walk, Parameter& parameter, Tensor& gradient) = 0;
  // The gradient of the step is final. Called once per step for each parameter, in the finishing walk after the model's
  // finish(). A sink may apply it here.
  virtual void complete(Walk& walk, Parameter& parameter) = 0;
  // The final gradient, valid between complete() and release(); empty if the sink has applied it.
  virtual Tensor gradient(const Parameter& parameter) const = 0;
  // Frees the gradients at the end of the finishing walk.
  virtual void release(Walk& walk) = 0;
};

// Makes the sink of a model. Step-long gradients are added to `step_gradients`. Both arguments outlive the sink.
using MakeSink = std::function<std::unique_ptr<Sink>(Parameters& parameters, plan::Slab& step_gradients)>;
// The plain sink.
std::unique_ptr<Sink> make_accumulate_sink(Parameters& parameters, plan::Slab& step_gradients);

}  // namespace comera::layers
