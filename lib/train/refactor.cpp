#include "lib/train/refactor.h"

#include <algorithm>

#include "lib/core/error.h"
#include "lib/tt/tt_svd.h"

namespace comera::train {
namespace {

using engine::Weights;
using layers::Parameter;

std::vector<double> read(const plan::Machine& machine, const plan::Tensor& tensor) {
  const engine::HostBytes host(machine, tensor);
  std::vector<double> numbers(static_cast<std::size_t>(tensor.elements()));
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = layers::load(host.tensor(), static_cast<std::int64_t>(i));
  return numbers;
}

void write(const plan::Machine& machine, const plan::Tensor& tensor, const std::vector<double>& numbers) {
  std::vector<std::byte> bytes(tensor.bytes());
  const plan::Tensor host{bytes.data(), tensor.dtype, tensor.shape, -1};
  for (std::size_t i = 0; i < numbers.size(); ++i) layers::store(host, static_cast<std::int64_t>(i), numbers[i]);
  engine::write(machine, tensor, bytes);
}

// The chain with its diagonals multiplied into the cores before them.
tt::Chain read_chain(const plan::Machine& machine, const layers::ChainParameters& chain) {
  tt::Chain result;
  result.layout = chain.layout;
  for (const Parameter* core : chain.cores) result.cores.push_back(read(machine, core->value));
  for (std::size_t bond = 0; bond < chain.diagonals.size(); ++bond) {
    const std::vector<double> diagonal = read(machine, chain.diagonals[bond]->value);
    std::vector<double>& core = result.cores[bond];
    for (std::size_t i = 0; i < core.size(); ++i) core[i] *= diagonal[i % diagonal.size()];
  }
  return result;
}

void forget(Weights& weights, const Parameter& parameter) {
  for (std::size_t which = 0; which < weights.state().size(); ++which) {
    const plan::Tensor state = weights.state(which, parameter.index);
    engine::write(weights.machine(), state, std::vector<std::byte>(state.bytes()));
  }
}

}  // namespace

void refactor(engine::Engine& engine) {
  Weights& weights = engine.weights();
  for (const layers::ChainParameters& chain : weights.model().chains()) {
    if (chain.cores.empty()) continue;
    const tt::Chain balanced = tt::balance_chain(read_chain(weights.machine(), chain));
    if (balanced.layout != chain.layout) continue;
    for (std::size_t k = 0; k < chain.cores.size(); ++k)
      write(weights.machine(), chain.cores[k]->value, balanced.cores[k]);
    for (const Parameter* diagonal : chain.diagonals)
      write(weights.machine(), diagonal->value,
            std::vector<double>(static_cast<std::size_t>(diagonal->shape.elements()), 1));
    for (const auto* parameters : {&chain.cores, &chain.diagonals})
      for (const Parameter* parameter : *parameters) forget(weights, *parameter);
  }
  engine.weights_changed();
}

void require_refactorable(const layers::Model& model) {
  const auto& chains = model.chains();
  if (std::all_of(chains.begin(), chains.end(),
                  [](const layers::ChainParameters& chain) { return chain.cores.empty(); }))
    fail_input("[train] --refactor-every: the model has no weight in tensor-train form; use --form lowrank or tt");
  for (const layers::ChainParameters& chain : chains)
    if (chain.layout.gauge)
      fail_input(
          "[train] --refactor-every: '{}' has an identity block that is not stored, which a new factorisation cannot "
          "keep; make the model with comera tensorize --no-gauge",
          chain.name);
}

}  // namespace comera::train
