#include "lib/train/importance.h"

#include <algorithm>

namespace comera::train {
namespace {

constexpr std::size_t second_moment = 1;  // number of the state (optimizer.h)

std::vector<ChainDiagonals> squares(std::vector<ChainDiagonals> chains) {
  for (ChainDiagonals& chain : chains)
    for (std::vector<double>& bond : chain.diagonals)
      for (double& value : bond) value = std::max(value, 0.0) * std::max(value, 0.0);
  return chains;
}

}  // namespace

std::vector<ChainDiagonals> importances(const Weights& weights, bool by_gradients) {
  std::vector<ChainDiagonals> chains = squares(read_diagonals(weights));
  if (!by_gradients || weights.state().size() <= second_moment) return chains;
  std::vector<ChainDiagonals> alone = chains;
  bool seen = false;
  auto chain = chains.begin();
  for (const layers::ChainParameters& parameters : weights.model().chains()) {
    if (parameters.cores.empty()) continue;
    for (std::size_t bond = 0; bond < parameters.diagonals.size(); ++bond) {
      std::vector<double>& values = chain->diagonals[bond];
      const engine::HostBytes host(weights.machine(), weights.state(second_moment, parameters.diagonals[bond]->index));
      std::vector<double> moments(values.size());
      layers::load(host.tensor(), 0, moments);
      for (std::size_t i = 0; i < values.size(); ++i) {
        seen = seen || moments[i] > 0;
        values[i] *= moments[i];
      }
    }
    ++chain;
  }
  return seen ? chains : alone;
}

}  // namespace comera::train
