#include "lib/train/refactor.h"

#include <algorithm>
#include <cmath>

#include "lib/core/error.h"
#include "lib/train/stored_chain.h"
#include "lib/tt/tt_svd.h"

namespace comera::train {
namespace {

using engine::Weights;
using layers::Parameter;

void write(const plan::Machine& machine, const plan::Tensor& tensor, const std::vector<double>& numbers) {
  std::vector<std::byte> bytes(tensor.bytes());
  const plan::Tensor host{bytes.data(), tensor.dtype, tensor.shape, -1};
  for (std::size_t i = 0; i < numbers.size(); ++i) layers::store(host, static_cast<std::int64_t>(i), numbers[i]);
  engine::write(machine, tensor, bytes);
}

void forget(Weights& weights, const Parameter& parameter) {
  for (std::size_t which = 0; which < weights.state().size(); ++which) {
    const plan::Tensor state = weights.state(which, parameter.index);
    engine::write(weights.machine(), state, std::vector<std::byte>(state.bytes()));
  }
}

// The diagonals of a chain, by bond.
using Diagonals = std::vector<std::vector<double>>;

void divide_columns(std::vector<double>& core, const std::vector<double>& by) {
  for (std::size_t i = 0; i < core.size(); ++i) core[i] /= by[i % by.size()];
}

void divide_rows(std::vector<double>& core, const std::vector<double>& by) {
  const std::size_t row = core.size() / by.size();
  for (std::size_t i = 0; i < core.size(); ++i) core[i] /= by[i / row];
}

// Moves the roots of relative singular values from the cores into the diagonals.
Diagonals take_relative_roots(tt::Balanced& balanced) {
  Diagonals diagonals;
  for (std::size_t bond = 0; bond < balanced.singular_values.size(); ++bond) {
    const std::vector<double>& values = balanced.singular_values[bond];
    std::vector<double>& diagonal = diagonals.emplace_back();
    std::vector<double> shares;  // of each side
    for (const double value : values) {
      const double relative = values[0] > 0 ? std::sqrt(value / values[0]) : 0;
      diagonal.push_back(relative);
      shares.push_back(relative > 0 ? std::sqrt(relative) : 1);
    }
    divide_columns(balanced.chain.cores[bond], shares);
    divide_rows(balanced.chain.cores[bond + 1], shares);
  }
  return diagonals;
}

Diagonals ones(tt::Balanced& balanced) {
  Diagonals diagonals;
  for (const std::vector<double>& values : balanced.singular_values) diagonals.emplace_back(values.size(), 1.0);
  return diagonals;
}

// `take_diagonals` moves a part of the balanced cores into the diagonals that it returns.
void factorise(engine::Engine& engine, Diagonals (*take_diagonals)(tt::Balanced&)) {
  Weights& weights = engine.weights();
  for (const layers::ChainParameters& chain : weights.model().chains()) {
    // Also those of a chain that stays as it is: the optimiser counts steps for all cores and diagonals together.
    for (const auto* parameters : {&chain.cores, &chain.diagonals})
      for (const Parameter* parameter : *parameters) forget(weights, *parameter);
    // With an activation between its factors the weight is no matrix that other factors could give.
    if (chain.cores.empty() || chain.layout.gauge || chain.between != kernels::Activation::none) continue;
    tt::Balanced balanced = tt::balance_chain(read_chain(weights.machine(), chain));
    if (balanced.chain.layout != chain.layout) continue;
    const Diagonals diagonals = chain.folded ? Diagonals() : take_diagonals(balanced);
    for (std::size_t bond = 0; bond < diagonals.size(); ++bond)
      write(weights.machine(), chain.diagonals[bond]->value, diagonals[bond]);
    for (std::size_t k = 0; k < chain.cores.size(); ++k)
      write(weights.machine(), chain.cores[k]->value, balanced.chain.cores[k]);
  }
  engine.weights_changed();
}

}  // namespace

void refactor(engine::Engine& engine) { factorise(engine, ones); }

void refactor_by_singular_values(engine::Engine& engine) { factorise(engine, take_relative_roots); }

void require_refactorable(const layers::Model& model) {
  const auto& chains = model.chains();
  if (std::all_of(chains.begin(), chains.end(),
                  [](const layers::ChainParameters& chain) { return chain.cores.empty(); }))
    fail_input("[train] --refactor-every: the model has no weight in tensor-train form; use --form lowrank or tt");
  for (const layers::ChainParameters& chain : chains) {
    if (chain.between != kernels::Activation::none)
      fail_input(
          "[train] --refactor-every: '{}' has an activation between its factors, so other factors are another layer; "
          "leave out --refactor-every or --between",
          chain.name);
    if (chain.layout.gauge)
      fail_input(
          "[train] --refactor-every: '{}' has an identity block that is not stored, which a new factorisation cannot "
          "keep; make the model with comera tensorize --no-gauge",
          chain.name);
  }
}

}  // namespace comera::train
