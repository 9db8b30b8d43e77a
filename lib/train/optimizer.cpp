#include "lib/train/optimizer.h"

#include <algorithm>

#include "kernels/optimizer.h"
#include "kernels/rank_objective.h"

namespace comera::train {
namespace {

bool is_core(const Parameter& parameter) { return parameter.role == layers::Role::core; }
bool is_diagonal(const Parameter& parameter) { return parameter.role == layers::Role::diagonal; }

}  // namespace

Optimizer::Optimizer(Weights& weights, const layers::Sink& sink, const OptimizerOptions& options)
    : weights_(weights), sink_(sink), options_(options) {
  const auto& parameters = weights.model().parameters().all();
  const auto count_if = [&](auto what) {
    return static_cast<std::size_t>(std::count_if(parameters.begin(), parameters.end(), what));
  };
  for (const layers::TensorTrain& train : weights.model().tensor_trains())
    chains_.resize(chains_.size() + !train.diagonals.empty());
  cores_.resize(count_if(is_core));
  gradients_.resize(parameters.size());
  updates_.resize(parameters.size());
  if (!chains_.empty()) weighed_.resize(parameters.size() - count_if(is_diagonal));
}

Optimizer::~Optimizer() = default;

void Optimizer::fill_chains() {
  auto chain = chains_.begin();
  for (const layers::TensorTrain& train : weights_.model().tensor_trains()) {
    if (train.diagonals.empty()) continue;
    chain->cores = static_cast<int>(train.cores.size());
    for (std::size_t k = 0; k < train.cores.size(); ++k) chain->sizes[k] = train.layout.entry_size(k);
    std::copy(train.layout.ranks.begin(), train.layout.ranks.end(), chain->ranks);
    for (std::size_t bond = 0; bond < train.diagonals.size(); ++bond) {
      chain->diagonals[bond] = train.diagonals[bond]->value.data;
      chain->d_diagonals[bond] = sink_.gradient(*train.diagonals[bond]).data;
    }
    ++chain;
  }
}

void Optimizer::fill_tensors(layers::StepState* state) {
  auto weighed = weighed_.begin();
  auto core = cores_.begin();
  for (const Parameter& parameter : weights_.model().parameters().all()) {
    const auto index = static_cast<std::size_t>(parameter.index);
    const std::int64_t count = parameter.shape.elements();
    void* gradient = sink_.gradient(parameter).data;
    gradients_[index] = {count, gradient};
    updates_[index] = {count,
                       parameter.value.data,
                       gradient,
                       weights_.state(0, parameter.index).data,
                       weights_.state(1, parameter.index).data,
                       &state->adamw[static_cast<int>(parameter.role)][parameter.decay]};
    if (is_core(parameter)) *core++ = {count, parameter.value.data};
    if (weighed_.empty() || is_diagonal(parameter)) continue;
    *weighed++ = {count, gradient, is_core(parameter) ? parameter.value.data : nullptr,
                  is_core(parameter) ? 2 * options_.beta : 0};
  }
}

void Optimizer::run_objective(layers::Walk& walk, layers::StepState* state) {
  const kernels::Backend& backend = walk.backend();
  const double threshold = weights_.model().threshold();
  const int chains = static_cast<int>(chains_.size());
  walk.run(backend.rank_measure, {chains_.data(), chains, threshold, options_.penalty, state->loss, &state->rank});
  walk.run(backend.rank_penalty_gradient, {chains_.data(), chains, threshold, options_.penalty, &state->rank});
  walk.run(backend.weigh_gradient, {weighed_.data(), static_cast<int>(weighed_.size()), &state->rank});
  walk.run(backend.square_sum, {cores_.data(), static_cast<int>(cores_.size()), &state->core_square_sum});
}

void Optimizer::run(layers::Walk& walk, layers::StepState* state) {
  const kernels::Backend& backend = walk.backend();
  fill_chains();
  fill_tensors(state);
  if (!chains_.empty()) run_objective(walk, state);
  walk.run(backend.square_sum, {gradients_.data(), static_cast<int>(gradients_.size()), &state->square_sum});
  walk.run(backend.clip_gradient, {options_.max_norm, &state->square_sum, state->loss, &state->scalars});
  walk.run(backend.adamw, {updates_.data(), static_cast<int>(updates_.size()), &state->scalars});
}

namespace {

class AdamW final : public engine::UpdateRule {
 public:
  explicit AdamW(const OptimizerOptions& options) : options_(options) {}
  std::vector<engine::ParameterState> state() const override { return {{"moment1"}, {"moment2"}}; }
  std::optional<std::size_t> curvature() const override { return 1; }
  std::unique_ptr<engine::WeightUpdate> make(Weights& weights, const layers::Sink& sink) const override {
    return std::make_unique<Optimizer>(weights, sink, options_);
  }

 private:
  OptimizerOptions options_;
};

}  // namespace

std::shared_ptr<const engine::UpdateRule> optimizer(const OptimizerOptions& options) {
  return std::make_shared<AdamW>(options);
}

}  // namespace comera::train
