#include "lib/train/importance.h"

#include <algorithm>

namespace comera::train {
namespace {

// Number of parameters of one entry of the bond behind core `bond`: a column of that core and a row of the next.
double cost_of(const layers::ChainParameters& chain, std::size_t bond) {
  return static_cast<double>(chain.layout.ranks[bond] * chain.layout.entry_size(bond) +
                             chain.layout.entry_size(bond + 1) * chain.layout.ranks[bond + 2]);
}

}  // namespace

std::vector<ChainDiagonals> importances(const Weights& weights) {
  std::vector<ChainDiagonals> chains = read_diagonals(weights);
  std::size_t c = 0;
  for (const layers::ChainParameters& chain : weights.model().chains()) {
    if (chain.cores.empty()) continue;
    for (std::size_t bond = 0; bond < chains[c].diagonals.size(); ++bond)
      for (std::size_t j = 0; j < chains[c].diagonals[bond].size(); ++j) {
        const double value = std::max(chains[c].diagonals[bond][j], 0.0);
        chains[c].diagonals[bond][j] = value * value / cost_of(chain, bond);
      }
    ++c;
  }
  return chains;
}

}  // namespace comera::train
