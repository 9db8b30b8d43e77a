#include "lib/train/chain_sizes.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

namespace comera::train {
namespace {

struct Entry {
  bool floor;  // it stays whatever its value is
  double value;
  std::size_t chain, bond;
  std::int64_t index;
};

// Floors, then the largest; equal values in the model's order, so that the choice is the same on every machine.
std::vector<Entry> sorted_entries(const std::vector<ChainDiagonals>& chains) {
  std::vector<Entry> entries;
  for (std::size_t c = 0; c < chains.size(); ++c)
    for (std::size_t bond = 0; bond < chains[c].diagonals.size(); ++bond) {
      const std::size_t first = entries.size();
      for (std::size_t i = 0; i < chains[c].diagonals[bond].size(); ++i)
        entries.push_back({false, chains[c].diagonals[bond][i], c, bond, static_cast<std::int64_t>(i)});
      for (const std::int64_t i : largest_of(chains[c].diagonals[bond], chains[c].floor))
        entries[first + static_cast<std::size_t>(i)].floor = true;
    }
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& a, const Entry& b) { return a.floor != b.floor ? a.floor : a.value > b.value; });
  return entries;
}

Kept none_of(const std::vector<ChainDiagonals>& chains) {
  Kept kept;
  for (const ChainDiagonals& chain : chains) kept.emplace_back(chain.diagonals.size());
  return kept;
}

void add(Kept& kept, const Entry& entry) { kept[entry.chain][entry.bond].push_back(entry.index); }

Kept first_of(const std::vector<ChainDiagonals>& chains, const std::vector<Entry>& entries, std::size_t count) {
  Kept kept = none_of(chains);
  for (std::size_t i = 0; i < count; ++i) add(kept, entries[i]);
  return kept;
}

bool is_removed(const std::vector<std::vector<std::int64_t>>& bonds) {
  return std::any_of(bonds.begin(), bonds.end(), [](const auto& bond) { return bond.empty(); });
}

void sort_indices(Kept& kept) {
  for (auto& bonds : kept)
    for (auto& bond : bonds) std::sort(bond.begin(), bond.end());
}

}  // namespace

std::vector<ChainDiagonals> chains_of(const Model& model) {
  std::vector<ChainDiagonals> chains;
  for (const layers::ChainParameters& parameters : model.chains()) {
    if (parameters.cores.empty()) continue;
    ChainDiagonals& chain = chains.emplace_back(ChainDiagonals{parameters.name, parameters.layout.entry_sizes(), {}});
    for (const Parameter* diagonal : parameters.diagonals)
      chain.diagonals.emplace_back(static_cast<std::size_t>(diagonal->shape.elements()));
  }
  return chains;
}

std::vector<ChainDiagonals> read_diagonals(const Weights& weights) {
  std::vector<ChainDiagonals> chains = chains_of(weights.model());
  auto chain = chains.begin();
  for (const layers::ChainParameters& parameters : weights.model().chains()) {
    if (parameters.cores.empty()) continue;
    for (std::size_t bond = 0; bond < parameters.diagonals.size(); ++bond) {
      const engine::HostBytes host(weights.machine(), parameters.diagonals[bond]->value);
      layers::load(host.tensor(), 0, chain->diagonals[bond]);
    }
    ++chain;
  }
  return chains;
}

std::vector<std::int64_t> largest_of(const std::vector<double>& values, std::int64_t count) {
  std::vector<std::int64_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return values[static_cast<std::size_t>(a)] > values[static_cast<std::size_t>(b)];
  });
  order.resize(std::min(order.size(), static_cast<std::size_t>(std::max<std::int64_t>(count, 0))));
  return order;
}

Kept above(const std::vector<ChainDiagonals>& chains, double threshold) {
  Kept kept = floors_of(chains);
  for (std::size_t c = 0; c < chains.size(); ++c)
    for (std::size_t bond = 0; bond < kept[c].size(); ++bond) {
      const std::vector<double>& values = chains[c].diagonals[bond];
      const auto live = [&](double value) { return value > threshold; };
      if (std::count_if(values.begin(), values.end(), live) < std::ssize(kept[c][bond])) continue;
      kept[c][bond].clear();
      for (std::size_t i = 0; i < values.size(); ++i)
        if (live(values[i])) kept[c][bond].push_back(static_cast<std::int64_t>(i));
    }
  return kept;
}

Kept floors_of(const std::vector<ChainDiagonals>& chains) {
  Kept kept = none_of(chains);
  for (std::size_t c = 0; c < chains.size(); ++c)
    for (std::size_t bond = 0; bond < kept[c].size(); ++bond)
      kept[c][bond] = largest_of(chains[c].diagonals[bond], chains[c].floor);
  sort_indices(kept);
  return kept;
}

std::int64_t entries_of(const std::vector<ChainDiagonals>& chains) {
  std::int64_t sum = 0;
  for (const ChainDiagonals& chain : chains)
    for (const auto& bond : chain.diagonals) sum += static_cast<std::int64_t>(bond.size());
  return sum;
}

std::int64_t entries_of(const Kept& kept) {
  std::int64_t sum = 0;
  for (const auto& bonds : kept)
    if (!is_removed(bonds))
      for (const auto& bond : bonds) sum += static_cast<std::int64_t>(bond.size());
  return sum;
}

std::int64_t size_of(const std::vector<ChainDiagonals>& chains, const Kept& kept) {
  std::int64_t sum = 0;
  for (std::size_t c = 0; c < chains.size(); ++c) {
    if (is_removed(kept[c])) continue;
    std::int64_t left = 1;
    for (std::size_t k = 0; k < chains[c].sizes.size(); ++k) {
      const std::int64_t right = k < kept[c].size() ? static_cast<std::int64_t>(kept[c][k].size()) : 1;
      sum += left * chains[c].sizes[k] * right;
      left = right;
    }
  }
  return sum;
}

double SizeTarget::measure(const std::vector<ChainDiagonals>& chains, const Kept& kept) const {
  return static_cast<double>(size_of(chains, kept)) + per_entry * static_cast<double>(entries_of(kept));
}

bool SizeTarget::close(double measure) const { return std::abs(measure - size) <= tolerance * (size + rest); }

Kept cut_to(const std::vector<ChainDiagonals>& chains, const SizeTarget& target) {
  const std::vector<Entry> entries = sorted_entries(chains);
  // The measure grows with the number of entries, so a bisection finds the largest number that fits.
  const auto floors = std::find_if(entries.begin(), entries.end(), [](const Entry& entry) { return !entry.floor; });
  auto fits = static_cast<std::size_t>(floors - entries.begin());
  std::size_t too_many = entries.size() + 1;
  while (too_many - fits > 1) {
    const std::size_t middle = fits + (too_many - fits) / 2;
    (target.measure(chains, first_of(chains, entries, middle)) <= target.size ? fits : too_many) = middle;
  }
  Kept kept = first_of(chains, entries, fits);
  // The next entry is too large. Smaller ones after it may still fit, or it may exceed the target within the tolerance.
  for (std::size_t i = fits; i < entries.size() && !target.close(target.measure(chains, kept)); ++i) {
    Kept more = kept;
    add(more, entries[i]);
    const double measure = target.measure(chains, more);
    if (measure <= target.size || target.close(measure)) kept = std::move(more);
  }
  sort_indices(kept);
  return kept;
}

double surrogate_at_start(const Model& model) {
  double sum = 0;
  for (const layers::ChainParameters& chain : model.chains())
    for (std::size_t k = 0; k < chain.layout.cores(); ++k)
      sum += static_cast<double>(chain.initial_ranks[k]) * static_cast<double>(chain.layout.entry_size(k)) *
             static_cast<double>(chain.initial_ranks[k + 1]);
  return sum;
}

}  // namespace comera::train
