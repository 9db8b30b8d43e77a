#include "lib/compress/refine/block_update.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "kernels/optimizer.h"
#include "kernels/step_scalars.h"
#include "lib/layers/training/parameter.h"

namespace comera::compress {
namespace {

using layers::Parameter;

constexpr double smallest_size = 1e-3;  // of vectors of zeros, such as new biases

// The rate of codes and scales, as a share of that of all other numbers. In 2 bits few codes are at their best after
// the fit, and have far to go (docs/results/compression.md).
double rate_of(quant::Grid grid) { return quant::bits_of(grid) == 2 ? 1.6 : 0.4; }

}  // namespace

class BlockUpdateRule::Shared final : public layers::ParameterSource {
 public:
  void bring(Parameter& parameter) override {
    const auto count = static_cast<std::size_t>(parameter.shape.elements());
    if (expanded_.size() < count) expanded_ = {};  // before the larger one is made
    if (expanded_.empty()) expanded_.resize(count);
    grids.at(parameter.index).expand(std::span(expanded_).first(count));
    parameter.value.data = expanded_.data();
  }

  std::vector<kernels::AdamwScalars> scalars;  // by the index of the parameter
  std::map<int, quant::TrainedGrid> grids;     // the same, of weights on grids
  std::int64_t step = 0;
  double rate = 0;

 private:
  std::vector<float> expanded_;  // the numbers of the weight that its layer reads now
};

class BlockUpdateRule::Update final : public engine::WeightUpdate {
 public:
  Update(engine::Weights& weights, const layers::Sink& sink, std::shared_ptr<Shared> shared)
      : weights_(weights), sink_(sink), shared_(std::move(shared)) {
    const std::size_t count = weights.model().parameters().all().size();
    gradients_.reserve(count), tensors_.reserve(count);
  }

  // A gradient that is not finite ends all further updates of the step.
  void apply(layers::Walk& walk, layers::StepState* state, const Parameter& parameter,
             const plan::Tensor& gradient) override {
    const std::int64_t count = parameter.shape.elements();
    const kernels::ConstTensor one{count, gradient.data};
    check_finite(walk, state, {&one, 1});
    if (walk.computes()) state->applied_square_sum += state->square_sum;
    if (!is_on_grid(parameter)) {
      const kernels::AdamwTensor tensor = tensor_of(parameter, gradient.data);
      walk.run(walk.backend().adamw, {&tensor, 1, &state->scalars});
    } else if (walk.computes() && state->scalars.finite != 0) {
      quant::TrainedGrid& grid = shared_->grids.at(parameter.index);
      grid.step({static_cast<const float*>(gradient.data), static_cast<std::size_t>(count)},
                rate_of(grid.grid()) * shared_->rate, shared_->step);
    }
  }

  void run(layers::Walk& walk, layers::StepState* state) override {
    gradients_.clear(), tensors_.clear();
    for (const Parameter& parameter : weights_.model().parameters().all()) {
      if (parameter.fixed || parameter.at_once) continue;
      void* gradient = sink_.gradient(parameter).data;
      gradients_.push_back({parameter.shape.elements(), gradient});
      tensors_.push_back(tensor_of(parameter, gradient));
    }
    check_finite(walk, state, gradients_);
    walk.run(walk.backend().adamw, {tensors_.data(), static_cast<int>(tensors_.size()), &state->scalars});
  }

 private:
  // Clears `finite` of the scalars unless these gradients and all before are finite. Without clipping.
  static void check_finite(layers::Walk& walk, layers::StepState* state,
                           std::span<const kernels::ConstTensor> gradients) {
    const kernels::Backend& backend = walk.backend();
    walk.run(backend.square_sum, {gradients.data(), static_cast<int>(gradients.size()), &state->square_sum});
    walk.run(backend.clip_gradient, {0, &state->square_sum, state->loss, &state->applied_square_sum, &state->scalars});
  }

  kernels::AdamwTensor tensor_of(const Parameter& parameter, const void* gradient) const {
    const kernels::AdamwScalars* scalars =
        shared_->scalars.empty() ? nullptr : &shared_->scalars[static_cast<std::size_t>(parameter.index)];
    return {parameter.shape.elements(),
            parameter.value.data,
            gradient,
            weights_.state(0, parameter.index).data,
            weights_.state(1, parameter.index).data,
            scalars};
  }

  engine::Weights& weights_;
  const layers::Sink& sink_;
  std::shared_ptr<Shared> shared_;
  std::vector<kernels::ConstTensor> gradients_;
  std::vector<kernels::AdamwTensor> tensors_;
};

BlockUpdateRule::BlockUpdateRule() : shared_(std::make_shared<Shared>()) {}
BlockUpdateRule::~BlockUpdateRule() = default;

bool BlockUpdateRule::is_on_grid(const Parameter& parameter) {
  return !parameter.fixed && parameter.linear && parameter.role != layers::Role::core;
}

void BlockUpdateRule::set_grid(const Parameter& parameter, const quant::Quantised& base,
                               std::span<const float> weight) {
  shared_->grids.erase(parameter.index);  // so that memory never holds both
  shared_->grids.emplace(parameter.index, quant::TrainedGrid(base, weight));
}

quant::TrainedGrid& BlockUpdateRule::grid(const Parameter& parameter) { return shared_->grids.at(parameter.index); }

void BlockUpdateRule::declare(layers::Parameters& parameters) const {
  for (Parameter& parameter : parameters.all())
    parameter.at_once = parameter.role == layers::Role::core || is_on_grid(parameter);
  parameters.leave_to(*shared_, is_on_grid);
}

std::vector<engine::ParameterState> BlockUpdateRule::state() const {
  const auto shape = [](const Parameter& parameter) {
    return parameter.fixed || is_on_grid(parameter) ? Shape{0} : parameter.shape;
  };
  return {{"moment1", shape}, {"moment2", shape}};
}

std::unique_ptr<engine::WeightUpdate> BlockUpdateRule::make(engine::Weights& weights, const layers::Sink& sink) const {
  return std::make_unique<Update>(weights, sink, shared_);
}

void BlockUpdateRule::measure(const layers::Parameters& parameters) {
  sizes_.clear();
  for (const Parameter& parameter : parameters.all()) {
    double sum = 0;
    const std::int64_t count = parameter.fixed || parameter.source ? 0 : parameter.shape.elements();
    for (std::int64_t i = 0; i < count; ++i) {
      const double value = layers::load(parameter.value, i);
      sum += value * value;
    }
    sizes_.push_back(std::max(count > 0 ? std::sqrt(sum / static_cast<double>(count)) : 0, smallest_size));
  }
  shared_->scalars.assign(sizes_.size(), {});
}

void BlockUpdateRule::begin(std::int64_t step, double rate) {
  shared_->step = step, shared_->rate = rate;
  for (std::size_t i = 0; i < sizes_.size(); ++i) {
    kernels::AdamwScalars& one = shared_->scalars[i];
    one.learning_rate = rate * sizes_[i];
    one.weight_decay = 0;
    one.correction1 = 1 - std::pow(one.beta1, static_cast<double>(step + 1));
    one.correction2 = 1 - std::pow(one.beta2, static_cast<double>(step + 1));
  }
}

}  // namespace comera::compress
