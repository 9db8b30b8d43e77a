#include "lib/compress/refine/block_update.h"

#include <algorithm>
#include <cmath>

#include "kernels/optimizer.h"

namespace comera::compress {
namespace {

using layers::Parameter;

constexpr double smallest_size = 1e-3;  // of vectors of zeros, such as new biases

// The rate of codes and scales, as a share of that of all other numbers. In 2 bits few codes are at their best after
// the fit, and have far to go (docs/results/compression.md).
double rate_of(quant::Grid grid) { return quant::bits_of(grid) == 2 ? 1.6 : 0.4; }

}  // namespace

class BlockUpdateRule::Update final : public engine::WeightUpdate {
 public:
  Update(engine::Weights& weights, const layers::Sink& sink, std::shared_ptr<Shared> shared)
      : weights_(weights), sink_(sink), shared_(std::move(shared)) {
    const std::size_t count = weights.model().parameters().all().size();
    gradients_.reserve(count), tensors_.reserve(count);
  }

  void run(layers::Walk& walk, layers::StepState* state) override {
    gradients_.clear(), tensors_.clear();
    for (const Parameter& parameter : weights_.model().parameters().all()) {
      if (parameter.fixed) continue;
      const std::int64_t count = parameter.shape.elements();
      void* gradient = sink_.gradient(parameter).data;
      gradients_.push_back({count, gradient});
      if (is_on_grid(parameter)) continue;
      const kernels::AdamwScalars* scalars =
          shared_->scalars.empty() ? nullptr : &shared_->scalars[static_cast<std::size_t>(parameter.index)];
      tensors_.push_back({count, parameter.value.data, gradient, weights_.state(0, parameter.index).data,
                          weights_.state(1, parameter.index).data, scalars});
    }
    const kernels::Backend& backend = walk.backend();
    walk.run(backend.square_sum, {gradients_.data(), static_cast<int>(gradients_.size()), &state->square_sum});
    // Without clipping: it sets the scale and tells a gradient that is not finite.
    walk.run(backend.clip_gradient, {0, &state->square_sum, state->loss, &state->applied_square_sum, &state->scalars});
    walk.run(backend.adamw, {tensors_.data(), static_cast<int>(tensors_.size()), &state->scalars});
    if (walk.computes() && state->scalars.finite != 0) train_grids();
  }

 private:
  void train_grids() const {
    std::vector<const Parameter*> scaled;
    for (const Parameter& parameter : weights_.model().parameters().all())
      if (!parameter.fixed && is_on_grid(parameter)) scaled.push_back(&parameter);
    tt::each_alone(std::ssize(scaled), [&](std::int64_t i) {
      const Parameter& parameter = *scaled[static_cast<std::size_t>(i)];
      const auto count = static_cast<std::size_t>(parameter.shape.elements());
      quant::TrainedGrid& grid = shared_->grids.at(parameter.index);
      grid.step({static_cast<const float*>(sink_.gradient(parameter).data), count},
                rate_of(grid.grid()) * shared_->rate, shared_->step);
      grid.expand({static_cast<float*>(parameter.value.data), count});
    });
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

void BlockUpdateRule::set_grid(const Parameter& parameter, quant::TrainedGrid grid) {
  shared_->grids.insert_or_assign(parameter.index, std::move(grid));
}

quant::TrainedGrid& BlockUpdateRule::grid(const Parameter& parameter) { return shared_->grids.at(parameter.index); }

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
    const std::int64_t count = parameter.fixed ? 0 : parameter.shape.elements();
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
