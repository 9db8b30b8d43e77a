#include "lib/train/core_rates.h"

#include <algorithm>
#include <cmath>

#include "lib/train/stored_chain.h"
#include "lib/tt/surroundings.h"

namespace comera::train {
namespace {

constexpr double largest_factor = 10;

std::vector<double> factors_of(const tt::Chain& chain) {
  const auto numbers = static_cast<double>(chain.layout.rows() * chain.layout.columns());
  const auto cores = static_cast<double>(chain.layout.cores());
  std::vector<double> factors;
  for (const double norm : tt::surrounding_norms(chain)) {
    const auto entries = static_cast<double>(chain.cores[factors.size()].size());
    factors.push_back(norm > 0 ? std::min(std::sqrt(numbers / (entries * cores)) / norm, largest_factor) : 1);
  }
  return factors;
}

}  // namespace

CoreRates stored_core_rates(const engine::Weights& weights) {
  CoreRates rates;
  for (const layers::ChainParameters& chain : weights.model().chains())
    if (!chain.cores.empty() && chain.layout.kind == tt::Kind::tt && chain.between == kernels::Activation::none)
      rates[chain.name] = factors_of(read_chain(weights.machine(), chain));
  return rates;
}

void set_core_rates(layers::Model& model, const CoreRates& rates) {
  for (layers::ChainParameters& chain : model.chains())
    if (const auto found = rates.find(chain.name); found != rates.end())
      for (std::size_t k = 0; k < std::min(chain.cores.size(), found->second.size()); ++k)
        chain.cores[k]->structured_rate = found->second[k];
}

}  // namespace comera::train
