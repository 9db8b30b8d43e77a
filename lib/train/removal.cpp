#include "lib/train/removal.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <string_view>
#include <unordered_map>

#include "lib/core/error.h"
#include "lib/core/terminal/log.h"

namespace comera::train {
namespace {

using Indices = std::vector<std::int64_t>;

// The kept indices of the first and the last dimension of one parameter.
struct Cut {
  Indices left, right;
};

std::map<std::string, Cut> cuts_of(const Model& model, const Kept& kept) {
  std::map<std::string, Cut> cuts;
  auto bonds = kept.begin();
  for (const layers::ChainParameters& chain : model.chains()) {
    if (chain.cores.empty()) continue;
    if (chain.diagonals.empty()) {  // folded: no entry can be removed
      ++bonds;
      continue;
    }
    for (std::size_t k = 0; k < chain.cores.size(); ++k)
      cuts[chain.cores[k]->name] = {k == 0 ? Indices{0} : (*bonds)[k - 1],
                                    k + 1 == chain.cores.size() ? Indices{0} : (*bonds)[k]};
    for (std::size_t k = 0; k < chain.diagonals.size(); ++k) cuts[chain.diagonals[k]->name] = {Indices{0}, (*bonds)[k]};
    ++bonds;
  }
  return cuts;
}

// A tensor and its machine.
struct Place {
  const plan::Machine& machine;
  const plan::Tensor tensor;
};

void transfer(const Place& source, const Place& target, const Cut* cut) {
  const plan::Tensor& from = source.tensor;
  const engine::HostBytes host(source.machine, from);
  if (!cut) return engine::write(target.machine, target.tensor, host.bytes());
  const std::int64_t r_right = from.shape[from.shape.dims() - 1];
  const std::int64_t r_left = from.shape.dims() == 1 ? 1 : from.shape[0];
  const std::int64_t middle = from.elements() / std::max<std::int64_t>(r_left * r_right, 1);
  engine::write(target.machine, target.tensor,
                slice(host.bytes(), size_of(from.dtype), middle, r_right, cut->left, cut->right));
}

void copy_weights(const std::map<std::string, Cut>& cuts, Weights& from, Weights& to) {
  for (std::size_t i = 0; i < to.model().chains().size(); ++i) {
    to.model().chains()[i].order = from.model().chains()[i].order;
    to.model().chains()[i].gauge = from.model().chains()[i].gauge;
    to.model().chains()[i].exact_ids = from.model().chains()[i].exact_ids;
  }
  std::unordered_map<std::string_view, const Parameter*> sources;
  for (const Parameter& source : from.model().parameters().all()) sources[source.name] = &source;
  for (const Parameter& target : to.model().parameters().all()) {
    const Parameter* source = sources.at(target.name);
    const auto cut = cuts.find(target.name);
    const Cut* which = cut == cuts.end() ? nullptr : &cut->second;
    transfer({from.machine(), source->value}, {to.machine(), target.value}, which);
    for (std::size_t i = 0; i < std::min(from.state().size(), to.state().size()); ++i)
      if (!which || from.state(i, source->index).shape == source->shape)
        transfer({from.machine(), from.state(i, source->index)}, {to.machine(), to.state(i, target.index)}, which);
  }
}

}  // namespace

layers::RankTable ranks_of(const Model& model, const Kept& kept) {
  layers::RankTable table;
  auto bonds = kept.begin();
  for (const layers::ChainParameters& chain : model.chains()) {
    std::vector<std::int64_t>& ranks = table[chain.name] = chain.layout.ranks;
    if (chain.cores.empty()) continue;
    const bool removed = std::any_of(bonds->begin(), bonds->end(), [](const Indices& bond) { return bond.empty(); });
    for (std::size_t k = 0; k < bonds->size(); ++k)
      ranks[k + 1] = removed ? 0 : static_cast<std::int64_t>((*bonds)[k].size());
    ++bonds;
  }
  return table;
}

namespace {

// False for a model without layers in tensor-train form.
bool lacks_all_ranks(Engine& engine) {
  const Kept kept = above(read_diagonals(engine.weights()), engine.model().threshold());
  const layers::RankTable table = ranks_of(engine.model(), kept);
  return !table.empty() && std::all_of(table.begin(), table.end(), [](const auto& layer) {
    return std::find(layer.second.begin(), layer.second.end(), 0) != layer.second.end();
  });
}

}  // namespace

void require_ranks(Engine& engine) {
  if (engine.model().parameters().rank_entries() == 0 || !lacks_all_ranks(engine)) return;
  fail_input(
      "[chain] --tau {:g}: at the start of the run every layer has a bond without a diagonal entry above it, so every "
      "layer would lose its ranks and end as its bias; use a smaller --tau, such as 0.01, or --rank-floor",
      engine.model().threshold());
}

void warn_without_ranks(Engine& engine) {
  if (lacks_all_ranks(engine))
    log_warning(
        "every layer in tensor-train form has lost its ranks and is its bias alone; use a smaller --tau, --gamma or "
        "--lr-ranks, or --rank-floor");
}

std::int64_t remove_all_but(Engine& engine, const Kept& kept, RemovedByBond* places) {
  const std::int64_t removed = engine.model().parameters().rank_entries() - entries_of(kept);
  if (removed == 0) return 0;
  const std::map<std::string, Cut> cuts = cuts_of(engine.model(), kept);
  const layers::RankTable ranks = ranks_of(engine.model(), kept);
  for (const layers::ChainParameters& chain : engine.model().chains()) {
    const std::vector<std::int64_t>&before = chain.layout.ranks, &after = ranks.at(chain.name);
    if (before == after || !places) continue;
    std::vector<std::int64_t>& lost = (*places)[chain.name];
    lost.resize(before.size() - 2);
    for (std::size_t k = 0; k < lost.size(); ++k) lost[k] += before[k + 1] - after[k + 1];
  }
  engine.replace(ranks, [&](Weights& from, Weights& to) { copy_weights(cuts, from, to); });
  return removed;
}

std::int64_t remove_zeros(Engine& engine) {
  std::vector<ChainDiagonals> chains = read_diagonals(engine.weights());
  for (ChainDiagonals& chain : chains)
    for (std::vector<double>& bond : chain.diagonals)
      for (double& entry : bond) entry = std::abs(entry);
  return remove_all_but(engine, above(chains, 0));
}

LiveWeights::LiveWeights(Engine& engine) : engine_(engine) {
  const double threshold = engine.model().threshold();
  if (!std::isfinite(threshold)) return;
  const Kept kept = above(read_diagonals(engine.weights()), threshold);
  if (entries_of(kept) == engine.model().parameters().rank_entries()) return;
  const plan::Machine host{&kernels::reference_backend(), engine.machine().dtype, nullptr};
  copy_ = std::make_unique<Weights>(host, engine.factory()(ranks_of(engine.model(), kept)),
                                    std::vector<engine::ParameterState>());
  copy_->model().set_threshold(threshold);
  copy_->allocate();
  copy_weights(cuts_of(engine.model(), kept), engine.weights(), *copy_);
}

std::vector<std::byte> slice(std::span<const std::byte> in, std::size_t element, std::int64_t middle,
                             std::int64_t r_right, std::span<const std::int64_t> left,
                             std::span<const std::int64_t> right) {
  std::vector<std::byte> out(left.size() * static_cast<std::size_t>(middle) * right.size() * element);
  std::byte* next = out.data();
  for (std::int64_t a : left)
    for (std::int64_t m = 0; m < middle; ++m)
      for (std::int64_t b : right) {
        std::memcpy(next, in.data() + static_cast<std::size_t>((a * middle + m) * r_right + b) * element, element);
        next += element;
      }
  return out;
}

}  // namespace comera::train
