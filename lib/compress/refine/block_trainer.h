// Trains one block on its own outputs: the calibration text's inputs of the compressed model, the dense model's
// outputs.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lib/compress/calibration/block_flows.h"
#include "lib/compress/refine/block_update.h"
#include "lib/compress/settings.h"
#include "lib/engine/engine.h"

namespace comera::compress {

// The engine of a block whose weights have the forms of `spec`. `rule`: null: it is not trained.
std::unique_ptr<engine::Engine> engine_of_block(const plan::Machine& machine, const models::ModelSpec& spec,
                                                std::int64_t block, const std::shared_ptr<const BlockUpdateRule>& rule);

class BlockTrainer {
 public:
  // `flows`, open at the block, outlive the trainer. `spec`: the forms of the block's weights; a dense linear weight in
  // it lies on a grid, whose codes and scales are trained. Weights on grids must be set before the block runs; all
  // other numbers are zero until they are set.
  BlockTrainer(BlockFlows& flows, const models::ModelSpec& spec, std::size_t block);

  layers::Model& model() { return engine_->model(); }
  // The numbers of a parameter that is no weight on a grid.
  static std::span<float> numbers(const layers::Parameter& parameter);
  // Call it after a write to numbers().
  void changed() { engine_->weights_changed(); }

  // Sets a weight on a grid, and gives what it has become. `dense`: the numbers that `base` approximates, [in x out].
  void set_on_grid(const layers::Parameter& parameter, const quant::Quantised& base, std::span<const float> dense) {
    rule_->set_grid(parameter, base, dense);
  }
  quant::Quantised on_grid(const layers::Parameter& parameter) { return rule_->grid(parameter).packed(); }
  // Rounds the scales of all such weights to half precision.
  void round_scales();

  // ||output - target|| / ||target|| over the tokens of this part of the text.
  double error(TextPart part);
  // Steps over the fitted text. The rate rises over the first tenth and then falls to zero as a cosine. Ends early if a
  // gradient is not finite.
  void train(const Refinement& settings);
  // Frees the memory of steps and errors until the next one.
  void free_step() { engine_->free_step(); }
  // Gives the outputs for all text to the flows, which run on from them.
  void give_outputs();

 private:
  double rate_of(std::int64_t step, const Refinement& settings) const;

  BlockFlows& flows_;
  std::size_t block_;
  std::shared_ptr<BlockUpdateRule> rule_;
  std::unique_ptr<engine::Engine> engine_;
};

}  // namespace comera::compress
