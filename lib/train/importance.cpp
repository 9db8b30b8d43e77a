#include "lib/train/importance.h"

#include <algorithm>

#include "lib/core/error.h"

namespace comera::train {
namespace {

// Number of parameters of one entry of the bond behind core `bond`: a column of that core and a row of the next.
double cost_of(const layers::ChainParameters& chain, std::size_t bond) {
  return static_cast<double>(chain.layout.ranks[bond] * chain.layout.entry_size(bond) +
                             chain.layout.entry_size(bond + 1) * chain.layout.ranks[bond + 2]);
}

}  // namespace

Sensitivity sensitivity_of(const Weights& weights, std::optional<std::size_t> curvature) {
  Sensitivity sensitivity;
  for (const layers::ChainParameters& chain : weights.model().chains()) {
    if (chain.cores.empty()) continue;
    auto& bonds = sensitivity.emplace_back();
    for (const Parameter* diagonal : chain.diagonals) {
      std::vector<double>& values = bonds.emplace_back();
      if (!curvature) {
        values.assign(static_cast<std::size_t>(diagonal->shape.elements()), 1);
        continue;
      }
      const engine::HostBytes host(weights.machine(), weights.state(*curvature, diagonal->index));
      for (std::int64_t i = 0; i < diagonal->shape.elements(); ++i) values.push_back(layers::load(host.tensor(), i));
    }
  }
  return sensitivity;
}

void keep_of(Sensitivity& sensitivity, const Kept& kept) {
  if (sensitivity.empty()) return;
  COMERA_CHECK(sensitivity.size() == kept.size());
  Sensitivity next;
  for (std::size_t c = 0; c < kept.size(); ++c) {
    if (std::any_of(kept[c].begin(), kept[c].end(), [](const auto& bond) { return bond.empty(); }))
      continue;  // the chain is removed
    auto& bonds = next.emplace_back();
    for (std::size_t bond = 0; bond < kept[c].size(); ++bond) {
      std::vector<double>& values = bonds.emplace_back();
      for (std::int64_t index : kept[c][bond]) values.push_back(sensitivity[c][bond][static_cast<std::size_t>(index)]);
    }
  }
  sensitivity = std::move(next);
}

std::vector<ChainDiagonals> importances(const Weights& weights, const Sensitivity& sensitivity) {
  std::vector<ChainDiagonals> chains = read_diagonals(weights);
  COMERA_CHECK(chains.size() == sensitivity.size());
  std::size_t c = 0;
  for (const layers::ChainParameters& chain : weights.model().chains()) {
    if (chain.cores.empty()) continue;
    for (std::size_t bond = 0; bond < chains[c].diagonals.size(); ++bond)
      for (std::size_t j = 0; j < chains[c].diagonals[bond].size(); ++j) {
        const double value = std::max(chains[c].diagonals[bond][j], 0.0);
        chains[c].diagonals[bond][j] = value * value * sensitivity[c][bond][j] / cost_of(chain, bond);
      }
    ++c;
  }
  return chains;
}

}  // namespace comera::train
