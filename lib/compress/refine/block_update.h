// AdamW for the refinement of a block: every tensor has a rate of its own, relative to the size of its numbers. Of a
// weight on a grid codes and scales are trained, and its numbers are in memory only while its layer reads them. Cores
// and weights on grids are updated in the backward, so that their gradients are in memory one layer at a time.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "lib/engine/weight_update.h"
#include "lib/quant/trained_grid.h"

namespace comera::compress {

// For machines whose memory the host can read, because the rates are in host memory.
class BlockUpdateRule final : public engine::UpdateRule {
 public:
  BlockUpdateRule();
  ~BlockUpdateRule() override;

  void declare(layers::Parameters& parameters) const override;
  std::vector<engine::ParameterState> state() const override;
  std::unique_ptr<engine::WeightUpdate> make(engine::Weights& weights, const layers::Sink& sink) const override;

  // Measures the tensors: the rate of a tensor is `rate` times the root mean square of its numbers at this moment, and
  // not below `rate` times 0.001.
  void measure(const layers::Parameters& parameters);
  // Sets the rates of step number `step`, from 0.
  void begin(std::int64_t step, double rate);

  // True for the weight of a linear layer that lies on a grid: its numbers follow from trained codes and scales.
  static bool is_on_grid(const layers::Parameter& parameter);
  // In place of the grid that was set before.
  void set_grid(const layers::Parameter& parameter, const quant::Quantised& base, std::span<const float> weight);
  quant::TrainedGrid& grid(const layers::Parameter& parameter);  // once it was set

 private:
  class Update;
  class Shared;
  std::shared_ptr<Shared> shared_;
  std::vector<double> sizes_;  // by the index of the parameter
};

}  // namespace comera::compress
