// The end of a training step: from the gradients to the new weights. The engine runs it and does not depend on the
// objective or the optimiser.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "lib/core/error.h"
#include "lib/engine/weights.h"
#include "lib/layers/training/sink.h"
#include "lib/layers/training/step_state.h"

namespace comera::engine {

// The settings of one step.
struct UpdateStep {
  std::int64_t step = 0;  // number of finished steps
  double rates[layers::roles] = {};
  std::optional<double> rate_table_cores = {};  // of the cores of tables; none: that of cores
  std::int64_t begun[layers::roles] = {};       // the step before which the moments of the role were last 0
};

class WeightUpdate {
 public:
  virtual ~WeightUpdate() = default;
  // Runs in the finishing walk, after the model's finish(). `state` is in device memory and is not read here.
  virtual void run(layers::Walk& walk, layers::StepState* state) = 0;
  // Runs in the backward, for the finished gradient of a parameter with at_once, before run().
  virtual void apply(layers::Walk&, layers::StepState*, const layers::Parameter&, const plan::Tensor&) {
    COMERA_CHECK(false);  // of a rule that declares no such parameter
  }
};

// A kind of update. Checkpoints, the memory table, device memory and the removal of ranks follow from its declaration.
class UpdateRule {
 public:
  virtual ~UpdateRule() = default;
  // Marks the parameters that are applied at once. The engine calls it before it makes weights, state and sink.
  virtual void declare(layers::Parameters&) const {}
  // The tensors that the update keeps per parameter between steps.
  virtual std::vector<ParameterState> state() const = 0;
  // Bytes of StepState::update that the update reads, at most sizeof StepState::update.
  virtual std::size_t scalar_bytes() const { return 0; }
  // Writes them before a step. `to` has scalar_bytes() bytes.
  virtual void write_scalars(const UpdateStep&, std::span<std::byte> to) const { static_cast<void>(to); }
  // Makes the update of a model. Both arguments outlive it: the weights with their state, and the sink that receives
  // the model's gradients. The engine calls it again for every model that it builds.
  virtual std::unique_ptr<WeightUpdate> make(Weights& weights, const layers::Sink& sink) const = 0;
};

}  // namespace comera::engine
