#include "lib/train/optimizer.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/adamw8.h"
#include "kernels/elementwise.h"
#include "kernels/optimizer.h"
#include "kernels/rank_objective.h"
#include "lib/core/error.h"
#include "lib/layers/training/subspace.h"

namespace comera::train {
namespace {

bool is_core(const Parameter& parameter) { return parameter.role == layers::Role::core; }
bool is_diagonal(const Parameter& parameter) { return parameter.role == layers::Role::diagonal; }

constexpr std::int64_t least_in_8_bits = 4096;

bool in_8_bits(const Parameter& parameter, const OptimizerOptions& options) {
  const bool linear = parameter.transposed_in_file && parameter.decay;  // not a table, which files store as it is
  return options.eight_bits && linear && parameter.gradient_shape().elements() >= least_in_8_bits;
}

enum State : std::uint8_t { moment1, moment2, codes1, codes2, largest1, largest2 };

// Layout of StepState::update.
struct Scalars {
  kernels::AdamwScalars of[layers::roles][2];  // by role; the second of a pair is for parameters with weight decay
  kernels::AdamwScalars beside[2];             // Parameter::beside_subspaces

  const kernels::AdamwScalars* group(const Parameter& parameter) const {
    return &(parameter.beside_subspaces ? beside : of[static_cast<int>(parameter.role)])[parameter.decay];
  }
};

}  // namespace

struct Optimizer::InSubspace {
  const Parameter* parameter;
  bool eight_bits;
  kernels::AdamwTensor update;
  kernels::Adamw8Tensor update8;
};

Optimizer::Optimizer(Weights& weights, const layers::Sink& sink, const OptimizerOptions& options)
    : weights_(weights), sink_(sink), options_(options) {
  const auto& parameters = weights.model().parameters().all();
  const auto count_if = [&](auto what) {
    return static_cast<std::size_t>(std::count_if(parameters.begin(), parameters.end(), what));
  };
  for (const layers::ChainParameters& chain : weights.model().chains())
    chains_.resize(chains_.size() + !chain.diagonals.empty());
  cores_.resize(count_if(is_core));
  gradients_.resize(parameters.size());
  const auto eight = [&](const Parameter& parameter) { return in_8_bits(parameter, options); };
  if (options.eight_bits && count_if(eight) == 0)
    fail_input("[train] --optimizer adamw8bit: the model has no dense linear weight of {} elements or more; use adamw",
               least_in_8_bits);
  in_subspaces_.reserve(count_if([](const Parameter& parameter) { return parameter.subspace != nullptr; }));
  decays_.reserve(in_subspaces_.capacity());
  updates8_.reserve(count_if(eight));
  updates_.reserve(parameters.size());
  if (!chains_.empty()) weighed_.resize(parameters.size() - count_if(is_diagonal));
}

Optimizer::~Optimizer() = default;

void Optimizer::fill_chains() {
  auto call = chains_.begin();
  for (const layers::ChainParameters& chain : weights_.model().chains()) {
    if (chain.diagonals.empty()) continue;
    call->cores = static_cast<int>(chain.cores.size());
    for (std::size_t k = 0; k < chain.cores.size(); ++k) call->sizes[k] = chain.layout.entry_size(k);
    std::copy(chain.layout.ranks.begin(), chain.layout.ranks.end(), call->ranks);
    for (std::size_t bond = 0; bond < chain.diagonals.size(); ++bond) {
      call->diagonals[bond] = chain.diagonals[bond]->value.data;
      call->d_diagonals[bond] = sink_.gradient(*chain.diagonals[bond]).data;
    }
    ++call;
  }
}

void Optimizer::fill_update(const Parameter& parameter, void* gradient, const kernels::AdamwScalars* group) {
  const auto state = [&](State which) { return weights_.state(which, parameter.index).data; };
  void* const value = parameter.subspace ? nullptr : parameter.value.data;
  const std::int64_t count = parameter.gradient_shape().elements();
  const bool eight_bits = in_8_bits(parameter, options_);
  kernels::AdamwTensor update;
  kernels::Adamw8Tensor update8;
  if (eight_bits)
    update8 = {.count = count,
               .value = value,
               .gradient = gradient,
               .codes1 = static_cast<std::uint8_t*>(state(codes1)),
               .codes2 = static_cast<std::uint8_t*>(state(codes2)),
               .largest1 = static_cast<float*>(state(largest1)),
               .largest2 = static_cast<float*>(state(largest2)),
               .scalars = group};
  else
    update = {count, value, gradient, state(moment1), state(moment2), group};
  if (parameter.subspace) {
    in_subspaces_.push_back({&parameter, eight_bits, update, update8});
    if (parameter.decay) decays_.push_back({parameter.shape.elements(), parameter.value.data, group});
  } else if (eight_bits) {
    updates8_.push_back(update8);
  } else {
    updates_.push_back(update);
  }
}

void Optimizer::fill_tensors(layers::StepState* state) {
  auto weighed = weighed_.begin();
  auto core = cores_.begin();
  updates_.clear(), updates8_.clear(), in_subspaces_.clear(), decays_.clear();
  const auto* scalars = reinterpret_cast<const Scalars*>(state->update);
  for (const Parameter& parameter : weights_.model().parameters().all()) {
    const std::int64_t count = parameter.gradient_shape().elements();
    void* gradient = sink_.gradient(parameter).data;
    gradients_[static_cast<std::size_t>(parameter.index)] = {count, gradient};
    fill_update(parameter, gradient, scalars->group(parameter));
    if (is_core(parameter)) *core++ = {count, parameter.value.data};
    if (weighed_.empty() || is_diagonal(parameter)) continue;
    *weighed++ = {count, gradient, is_core(parameter) ? parameter.value.data : nullptr,
                  is_core(parameter) ? 2 * options_.beta : 0};
  }
}

// AdamW on zeros gives the update -lr u, and W += alpha P (-lr u).
void Optimizer::run_in_subspaces(layers::Walk& walk, layers::StepState* state) {
  const kernels::Backend& backend = walk.backend();
  if (!decays_.empty()) walk.run(backend.decay, {decays_.data(), static_cast<int>(decays_.size()), &state->scalars});
  for (InSubspace& one : in_subspaces_) {
    plan::Tensor update = walk.make_statistic("update", one.parameter->gradient_shape());
    walk.run(backend.fill, {update.data, update.bytes()});
    one.update.value = one.update8.value = update.data;
    if (one.eight_bits) {
      walk.run(backend.adamw8, {&one.update8, 1, &state->scalars});
    } else {
      walk.run(backend.adamw, {&one.update, 1, &state->scalars});
    }
    layers::lift(walk, *one.parameter->subspace, &state->scalars, update, one.parameter->value);
    walk.drop(update);
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
  if (!updates8_.empty())
    walk.run(backend.adamw8, {updates8_.data(), static_cast<int>(updates8_.size()), &state->scalars});
  run_in_subspaces(walk, state);
}

namespace {

class AdamW final : public engine::UpdateRule {
 public:
  explicit AdamW(const OptimizerOptions& options) : options_(options) {}
  std::vector<engine::ParameterState> state() const override {
    const auto whole = [](const Parameter& parameter) { return parameter.gradient_shape(); };
    if (!options_.eight_bits) return {{"moment1", whole}, {"moment2", whole}};
    const auto shape = [options = options_](bool eight_bits, auto of) {
      return [=](const Parameter& parameter) {
        return in_8_bits(parameter, options) == eight_bits ? of(parameter) : Shape{0};
      };
    };
    const auto codes = [](const Parameter& parameter) { return Shape{parameter.gradient_shape().elements()}; };
    const auto blocks = [](const Parameter& parameter) {
      return Shape{kernels::adamw8_blocks(parameter.gradient_shape().elements())};
    };
    return {{"moment1", shape(false, whole)},
            {"moment2", shape(false, whole)},
            {"moment1.codes", shape(true, codes), DType::u8},
            {"moment2.codes", shape(true, codes), DType::u8},
            {"moment1.largest", shape(true, blocks), DType::f32},
            {"moment2.largest", shape(true, blocks), DType::f32}};
  }
  std::optional<std::size_t> curvature() const override { return moment2; }
  std::size_t scalar_bytes() const override { return sizeof(Scalars); }
  void write_scalars(const engine::UpdateStep& step, std::span<std::byte> to) const override {
    Scalars scalars;
    const double t = static_cast<double>(step.step + 1);
    const auto write = [&](kernels::AdamwScalars(&pair)[2], double rate) {
      for (const bool decays : {false, true}) {
        kernels::AdamwScalars& one = pair[decays] = options_.adamw;
        one.learning_rate = rate;
        if (!decays) one.weight_decay = 0;
        one.correction1 = 1 - std::pow(one.beta1, t);
        one.correction2 = 1 - std::pow(one.beta2, t);
      }
    };
    for (int role = 0; role < layers::roles; ++role) write(scalars.of[role], step.rates[role]);
    write(scalars.beside, options_.beside_scale * step.rates[static_cast<int>(layers::Role::other)]);
    std::memcpy(to.data(), &scalars, to.size());
  }
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
