#include "lib/train/stored_chain.h"

#include <vector>

#include "lib/engine/weights.h"

namespace comera::train {
namespace {

std::vector<double> read_numbers(const plan::Machine& machine, const plan::Tensor& tensor) {
  const engine::HostBytes host(machine, tensor);
  std::vector<double> numbers(static_cast<std::size_t>(tensor.elements()));
  layers::load(host.tensor(), 0, numbers);
  return numbers;
}

}  // namespace

tt::Chain read_chain(const plan::Machine& machine, const layers::ChainParameters& chain) {
  tt::Chain result;
  result.layout = chain.layout;
  for (const layers::Parameter* core : chain.cores) result.cores.push_back(read_numbers(machine, core->value));
  for (std::size_t bond = 0; bond < chain.diagonals.size(); ++bond) {
    const std::vector<double> diagonal = read_numbers(machine, chain.diagonals[bond]->value);
    std::vector<double>& core = result.cores[bond];
    for (std::size_t i = 0; i < core.size(); ++i) core[i] *= diagonal[i % diagonal.size()];
  }
  return result;
}

}  // namespace comera::train
