#include "lib/train/optimizer.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/chain_decay.h"
#include "kernels/elementwise.h"
#include "kernels/optimizer.h"
#include "kernels/rank_objective.h"
#include "lib/core/error.h"
#include "lib/layers/training/subspace.h"

namespace comera::train {
namespace {

// The decay costs up to a twelfth of a step, and its share is small: every eighth step decays by eight times the share.
constexpr int steps_of_decay = 8;

bool is_core(const Parameter& parameter) { return parameter.role == layers::Role::core; }
bool is_diagonal(const Parameter& parameter) { return parameter.role == layers::Role::diagonal; }

// The weight is the product of its cores alone.
bool is_product(const layers::ChainParameters& chain) {
  return !chain.cores.empty() && chain.between == kernels::Activation::none && !chain.layout.gauge;
}

void fill(const layers::ChainParameters& chain, kernels::BondedCores& call) {
  call.cores = static_cast<int>(chain.cores.size());
  for (std::size_t k = 0; k < chain.cores.size(); ++k) call.sizes[k] = chain.layout.entry_size(k);
  std::copy(chain.layout.ranks.begin(), chain.layout.ranks.end(), call.ranks);
  for (std::size_t bond = 0; bond < chain.diagonals.size(); ++bond)
    call.diagonals[bond] = chain.diagonals[bond]->value.data;
}

}  // namespace

Optimizer::Optimizer(Weights& weights, const layers::Sink& sink, const OptimizerOptions& options)
    : weights_(weights), sink_(sink), options_(options), methods_(options.methods) {
  const auto& parameters = weights.model().parameters().all();
  const auto count_if = [&](auto what) {
    return static_cast<std::size_t>(std::count_if(parameters.begin(), parameters.end(), what));
  };
  for (const layers::ChainParameters& chain : weights.model().chains())
    chains_.resize(chains_.size() + !chain.diagonals.empty());
  cores_.resize(count_if(is_core));
  gradients_.reserve(parameters.size());
  methods_.check(weights.model().parameters());
  methods_.check_settings(weights.model().parameters(), options.adamw_settings);
  check_at_once();
  for (const Parameter& parameter : parameters) group_of_.push_back(methods_.number_of(parameter));
  in_decaying_.resize(parameters.size());
  for (const layers::ChainParameters& chain : weights.model().chains()) {
    if (!norm_decays(chain)) continue;
    decaying_.emplace_back();
    for (const Parameter* core : chain.cores) in_decaying_[static_cast<std::size_t>(core->index)] = true;
  }
  if (options_.needs_norm_decay && decaying_.empty())
    fail_input(
        "[train] --weight-norm-decay {:g} would decay nothing: it is for weights in TT or low-rank form whose cores "
        "have AdamW or Muon; use --weight-decay, or leave it out",
        options_.weight_norm_decay);
  groups_.resize(methods_.methods());
  for (Group& group : groups_) group.targets.reserve(parameters.size()), group.in_subspaces.reserve(parameters.size());
  decays_.reserve(parameters.size());
  weighed_.reserve(parameters.size());
}

Optimizer::~Optimizer() = default;

// The decay is a share of the rate, so it is for methods whose steps have the size of the rate.
bool Optimizer::norm_decays(const layers::ChainParameters& chain) const {
  return options_.weight_norm_decay > 0 && is_product(chain) &&
         std::all_of(chain.cores.begin(), chain.cores.end(), [&](const Parameter* core) {
           return methods_[group_of_[static_cast<std::size_t>(core->index)]].moves_by_rate();
         });
}

// The norm of all gradients is known when all of them are.
void Optimizer::check_at_once() const {
  const MethodRule* rule = rule_at_once(options_.methods.rules);
  if (!rule) return;
  if (options_.max_norm > 0)
    fail_input(
        "[train] --optimizer {} updates weights in the backward, before the norm of all gradients is known, and --clip "
        "is {:g}; use --clip 0{}",
        rule->method, options_.max_norm,
        rule->method == "lomo" ? " with --lomo-clip, which limits each gradient by its own norm"
                               : ": adalomo limits each update by its own size");
}

void Optimizer::fill_chains() {
  auto call = chains_.begin();
  for (const layers::ChainParameters& chain : weights_.model().chains()) {
    if (chain.diagonals.empty()) continue;
    fill(chain, *call);
    for (std::size_t bond = 0; bond < chain.diagonals.size(); ++bond)
      call->d_diagonals[bond] = sink_.gradient(*chain.diagonals[bond]).data;
    ++call;
  }
}

void Optimizer::fill_decaying(const layers::StepState* state) {
  const auto* scalars = reinterpret_cast<const UpdateScalars*>(state->update);
  auto call = decaying_.begin();
  for (const layers::ChainParameters& chain : weights_.model().chains()) {
    if (!norm_decays(chain)) continue;
    fill(chain, *call);
    for (std::size_t k = 0; k < chain.cores.size(); ++k) call->values[k] = chain.cores[k]->value.data;
    call->scalars = scalars->group(*chain.cores[0], false);
    ++call;
  }
}

void Optimizer::fill_tensors(layers::StepState* state) {
  auto core = cores_.begin();
  decays_.clear(), gradients_.clear(), weighed_.clear();
  for (Group& group : groups_) group.targets.clear(), group.in_subspaces.clear();
  const auto* scalars = reinterpret_cast<const UpdateScalars*>(state->update);
  for (const Parameter& parameter : weights_.model().parameters().all()) {
    if (parameter.at_once) continue;
    const Target target{&parameter,
                        parameter.gradient_shape().elements(),
                        parameter.subspace ? nullptr : parameter.value.data,
                        sink_.gradient(parameter).data,
                        scalars->group(parameter, decays(parameter)),
                        options_.structured_rates && is_core(parameter) ? parameter.structured_rate : 1};
    gradients_.push_back({target.count, target.gradient});
    Group& group = groups_[group_of_[static_cast<std::size_t>(parameter.index)]];
    (parameter.subspace ? group.in_subspaces : group.targets).push_back(target);
    if (parameter.subspace && parameter.decay)
      decays_.push_back({parameter.shape.elements(), parameter.value.data, target.scalars});
    if (is_core(parameter)) *core++ = {target.count, parameter.value.data};
    if (chains_.empty() || is_diagonal(parameter)) continue;
    weighed_.push_back({target.count, target.gradient, is_core(parameter) ? parameter.value.data : nullptr,
                        is_core(parameter) ? 2 * options_.beta : 0});
  }
}

States Optimizer::states_of(std::size_t method) const {
  std::size_t first = 0;
  for (std::size_t k = 0; k < method; ++k) first += methods_[k].state().size();
  return {weights_, first};
}

// A method on zeros gives the update -lr u, and W += alpha P (-lr u).
void Optimizer::run_in_subspaces(layers::Walk& walk, layers::StepState* state) {
  const kernels::Backend& backend = walk.backend();
  if (!decays_.empty()) walk.run(backend.decay, {decays_.data(), static_cast<int>(decays_.size()), &state->scalars});
  for (std::size_t k = 0; k < groups_.size(); ++k)
    for (Target target : groups_[k].in_subspaces) {
      plan::Tensor update = walk.make_statistic("update", target.parameter->gradient_shape());
      walk.run(backend.fill, {update.data, update.bytes()});
      target.value = update.data;
      methods_[k].run(walk, state, {&target, 1}, states_of(k));
      layers::lift(walk, *target.parameter->subspace, &state->scalars, update, target.parameter->value);
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
  walk.run(backend.clip_gradient,
           {options_.max_norm, &state->square_sum, state->loss, &state->applied_square_sum, &state->scalars});
  fill_decaying(state);
  if (!decaying_.empty())
    walk.run(backend.chain_decay, {decaying_.data(), static_cast<int>(decaying_.size()), options_.weight_norm_decay,
                                   weights_.model().threshold(), &state->scalars, steps_of_decay});
  for (std::size_t k = 0; k < groups_.size(); ++k)
    if (!groups_[k].targets.empty()) methods_[k].run(walk, state, groups_[k].targets, states_of(k));
  run_in_subspaces(walk, state);
}

void Optimizer::apply(layers::Walk& walk, layers::StepState* state, const Parameter& parameter,
                      const plan::Tensor& gradient) {
  const Target target{&parameter, parameter.shape.elements(), parameter.value.data, gradient.data,
                      reinterpret_cast<const UpdateScalars*>(state->update)->group(parameter, parameter.decay)};
  const std::size_t method = group_of_[static_cast<std::size_t>(parameter.index)];
  methods_[method].run(walk, state, {&target, 1}, states_of(method));
}

namespace {

class Rule final : public engine::UpdateRule {
 public:
  explicit Rule(const OptimizerOptions& options)
      : options_(options), methods_(std::make_shared<MethodChoice>(options.methods)) {}

  // The states of all methods; those of a parameter that another method takes are empty.
  std::vector<engine::ParameterState> state() const override {
    std::vector<engine::ParameterState> states;
    for (std::size_t k = 0; k < methods_->methods(); ++k)
      for (engine::ParameterState& one : (*methods_)[k].state()) {
        one.shape = [methods = methods_, k, shape = one.shape](const Parameter& parameter) {
          return methods->number_of(parameter) == k ? shape(parameter) : Shape{0};
        };
        states.push_back(std::move(one));
      }
    return states;
  }
  void declare(layers::Parameters& parameters) const override { methods_->mark(parameters); }
  std::size_t scalar_bytes() const override { return sizeof(UpdateScalars); }
  void write_scalars(const engine::UpdateStep& step, std::span<std::byte> to) const override {
    UpdateScalars scalars;
    const auto all = static_cast<double>(step.step + 1);
    const auto write = [&](kernels::AdamwScalars(&pair)[2], double rate, double t) {
      for (const bool decays : {false, true}) {
        kernels::AdamwScalars& one = pair[decays] = options_.adamw;
        one.learning_rate = rate;
        if (!decays) one.weight_decay = 0;
        one.correction1 = 1 - std::pow(one.beta1, t);
        one.correction2 = 1 - std::pow(one.beta2, t);
      }
    };
    const auto steps_of = [&](int role) { return static_cast<double>(step.step - step.begun[role] + 1); };
    for (int role = 0; role < layers::roles; ++role) write(scalars.of[role], step.rates[role], steps_of(role));
    constexpr int core = static_cast<int>(layers::Role::core);
    write(scalars.table_cores, step.rate_table_cores.value_or(step.rates[core]), steps_of(core));
    kernels::AdamwScalars unit[2];
    write(unit, 1, all);
    scalars.unit = unit[0];
    const double rate = step.rates[static_cast<int>(layers::Role::other)];
    write(unit, options_.methods.galore.scale * rate, all);
    scalars.galore = unit[0];
    write(scalars.at_once, options_.methods.lomo.scale * rate, all);
    write(scalars.beside, options_.beside_scale * rate, all);
    // The decay is that of the other weights: the update has a scale, the rate has none.
    if (options_.beside_scale > 0) scalars.beside[true].weight_decay /= options_.beside_scale;
    std::memcpy(to.data(), &scalars, to.size());
  }
  std::unique_ptr<engine::WeightUpdate> make(Weights& weights, const layers::Sink& sink) const override {
    return std::make_unique<Optimizer>(weights, sink, options_);
  }

 private:
  OptimizerOptions options_;
  std::shared_ptr<const MethodChoice> methods_;
};

}  // namespace

std::shared_ptr<const engine::UpdateRule> optimizer(const OptimizerOptions& options) {
  return std::make_shared<Rule>(options);
}

}  // namespace comera::train
