// The end of a training step: from the gradients to the new weights. The engine runs it and does not depend on the
// objective or the optimiser.
#pragma once

#include <functional>
#include <memory>

#include "lib/engine/weights.h"
#include "lib/layers/sink.h"

namespace comera::engine {

class WeightUpdate {
 public:
  virtual ~WeightUpdate() = default;
  // Runs in the finishing walk, after the model's finish(). `state` is in device memory and is not read here.
  virtual void run(layers::Walk& walk, layers::StepState* state) = 0;
};

// Makes the update of a model. Both arguments outlive it: the weights with their moments, and the sink that receives
// the model's gradients. The engine calls it again for every model that it builds.
using MakeUpdate = std::function<std::unique_ptr<WeightUpdate>(Weights&, const layers::Sink&)>;

}  // namespace comera::engine
