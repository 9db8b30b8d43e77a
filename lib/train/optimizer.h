// The end of a step as one list of kernel calls: weighting of gradients by the objective, clipping, AdamW.
#pragma once

#include <vector>

#include "lib/engine/weight_update.h"
#include "lib/layers/training/sink.h"

namespace comera::kernels {
struct Adamw8Tensor;
struct AdamwTensor;
struct ConstTensor;
struct DecayTensor;
struct RankChain;
struct WeighedTensor;
}  // namespace comera::kernels

namespace comera::train {

using engine::Weights;
using layers::Model;
using layers::Parameter;

struct OptimizerOptions {
  double max_norm = 1;  // of all gradients together; 0: no clipping
  double beta = 1e-6;   // weight of the squared norm of all cores (CoMERA, early stage)
  kernels::RankPenalty penalty = kernels::RankPenalty::size;
  // The rate and the corrections are those of a step; the decay is for parameters with weight decay.
  kernels::AdamwScalars adamw = {};
  // Moments of dense linear weights with at least 4,096 elements in 8 bits (kernels/adamw8.h). Those of cores,
  // diagonals, tables, biases and norms stay in 32 bits: they are small, or learn unstably in 8.
  bool eight_bits = false;
  // Scale of the updates of weights beside those in subspaces (Parameter::beside_subspaces).
  double beside_scale = 1;
};

// Computes gradients of the whole objective, loss_weight * L + size_weight * penalty + beta |G|^2, then runs AdamW with
// the scalars of the parameter's role. A model without tensor trains has L alone.
class Optimizer final : public engine::WeightUpdate {
 public:
  // All arguments must outlive the optimiser. `sink` is the sink that received the model's gradients.
  Optimizer(Weights& weights, const layers::Sink& sink, const OptimizerOptions& options);
  ~Optimizer() override;

  void run(layers::Walk& walk, layers::StepState* state) override;

 private:
  void fill_chains();
  void fill_tensors(layers::StepState* state);
  void fill_update(const Parameter& parameter, void* gradient, const kernels::AdamwScalars* group);
  void run_objective(layers::Walk& walk, layers::StepState* state);
  void run_in_subspaces(layers::Walk& walk, layers::StepState* state);

  Weights& weights_;
  const layers::Sink& sink_;
  OptimizerOptions options_;
  // Arguments of the calls: sized once, filled again in every step.
  std::vector<kernels::RankChain> chains_;
  std::vector<kernels::WeighedTensor> weighed_;
  std::vector<kernels::ConstTensor> gradients_, cores_;
  std::vector<kernels::AdamwTensor> updates_;
  std::vector<kernels::Adamw8Tensor> updates8_;
  // Weights with gradients in a subspace. One of the two updates of each is filled in; its value is a temporary tensor.
  struct InSubspace;
  std::vector<InSubspace> in_subspaces_;
  std::vector<kernels::DecayTensor> decays_;
};

// AdamW with these options. Its state is the two moments; the second is its curvature.
std::shared_ptr<const engine::UpdateRule> optimizer(const OptimizerOptions& options = {});

}  // namespace comera::train
