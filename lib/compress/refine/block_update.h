// AdamW for the refinement of a block: every tensor has a rate of its own, relative to the size of its numbers.
#pragma once

#include <memory>
#include <vector>

#include "kernels/step_scalars.h"
#include "lib/engine/weight_update.h"

namespace comera::compress {

// For machines whose memory the host can read, because the rates are in host memory.
class BlockUpdateRule final : public engine::UpdateRule {
 public:
  BlockUpdateRule();
  ~BlockUpdateRule() override;

  std::vector<engine::ParameterState> state() const override;
  std::unique_ptr<engine::WeightUpdate> make(engine::Weights& weights, const layers::Sink& sink) const override;

  // Measures the tensors: the rate of a tensor is `rate` times the root mean square of its numbers at this moment, and
  // not below `rate` times 0.001.
  void measure(const layers::Parameters& parameters);
  // Sets the rates of step number `step`, from 0.
  void begin(std::int64_t step, double rate);

 private:
  std::shared_ptr<std::vector<kernels::AdamwScalars>> scalars_;  // by the index of the parameter
  std::vector<double> sizes_;                                    // the same
};

}  // namespace comera::compress
