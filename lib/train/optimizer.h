// The end of a step as one list of kernel calls: weighting of gradients by the objective, clipping, the update.
#pragma once

#include <string>
#include <vector>

#include "lib/engine/weight_update.h"
#include "lib/layers/training/sink.h"
#include "lib/train/updates/choice.h"

namespace comera::kernels {
struct ConstTensor;
struct DecayingChain;
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
  double beta = 1e-6;   // weight of the squared norm of all cores (CoMERA)
  kernels::RankPenalty penalty = kernels::RankPenalty::size;
  bool structured_rates = false;  // rates of cores by Parameter::structured_rate
  // Above 0: the norm of a weight in TT or low-rank form with AdamW or Muon decays (kernels/chain_decay.h), its cores
  // do not.
  double weight_norm_decay = 0;
  bool needs_norm_decay = false;  // refuse a model in which no weight decays so
  // The rate and the corrections are those of a step; the decay is for parameters with weight decay.
  kernels::AdamwScalars adamw = {};
  std::vector<std::string> adamw_settings = {};  // options; refuse them if all weights have a method without moments
  // The methods of weights. Those with less state than AdamW are for dense linear weights, but for Adagrad and SGD:
  // cores, tables, biases and norms are small, or learn unstably otherwise.
  MethodSettings methods = {};
  std::int64_t refactor_every = 0;  // steps between new factorisations of tensor trains (refactor.h); 0: none
  // Scale of the updates of weights beside those in subspaces (Parameter::beside_subspaces).
  double beside_scale = 1;
};

// Computes gradients of the whole objective, loss_weight * L + size_weight * penalty + beta |G|^2, then runs the
// methods with the scalars of the parameter's role. A model without tensor trains has L alone.
class Optimizer final : public engine::WeightUpdate {
 public:
  // All arguments must outlive the optimiser. `sink` is the sink that received the model's gradients.
  Optimizer(Weights& weights, const layers::Sink& sink, const OptimizerOptions& options);
  ~Optimizer() override;

  void run(layers::Walk& walk, layers::StepState* state) override;
  void apply(layers::Walk& walk, layers::StepState* state, const Parameter& parameter,
             const plan::Tensor& gradient) override;

 private:
  void check_at_once() const;
  bool norm_decays(const layers::ChainParameters& chain) const;
  void fill_chains();
  void fill_decaying(const layers::StepState* state);
  void fill_tensors(layers::StepState* state);
  void run_objective(layers::Walk& walk, layers::StepState* state);
  void run_in_subspaces(layers::Walk& walk, layers::StepState* state);
  States states_of(std::size_t method) const;
  // True if the method itself decays the parameter's entries.
  bool decays(const Parameter& parameter) const {
    return parameter.decay && !in_decaying_[static_cast<std::size_t>(parameter.index)];
  }

  Weights& weights_;
  const layers::Sink& sink_;
  OptimizerOptions options_;
  // Arguments of the calls: sized once, filled again in every step.
  std::vector<kernels::RankChain> chains_;
  std::vector<kernels::DecayingChain> decaying_;  // chains with decay of the weight's norm
  std::vector<bool> in_decaying_;                 // by a parameter's index: it is a core of one of them
  std::vector<kernels::WeighedTensor> weighed_;
  std::vector<kernels::ConstTensor> gradients_, cores_;
  std::vector<kernels::DecayTensor> decays_;  // of weights with gradients in a subspace
  struct Group {
    std::vector<Target> targets, in_subspaces;
  };
  MethodChoice methods_;
  std::vector<Group> groups_;          // by method
  std::vector<std::size_t> group_of_;  // of a parameter by its index
};

// The update with these options. AdamW's two moments come first among its states.
std::shared_ptr<const engine::UpdateRule> optimizer(const OptimizerOptions& options = {});

}  // namespace comera::train
