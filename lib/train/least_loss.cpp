#include "lib/train/least_loss.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace comera::train {
namespace {

using Chains = std::vector<ChainDiagonals>;
using Ranks = std::vector<std::vector<std::int64_t>>;  // by chain and bond

struct Bond {
  std::vector<std::int64_t> order;  // indices of the entries, the most important first
  std::vector<double> values;       // in that order
  std::int64_t rank = 0;            // the first of them stay
  double all = 0, left = 0;         // sums of importances

  double least() const { return values[static_cast<std::size_t>(rank - 1)]; }
  double share() const { return all > 0 ? left / all : 0; }
};

Bond bond_of(const std::vector<double>& values) {
  Bond bond;
  bond.order = largest_of(values, std::ssize(values));
  bond.rank = std::ssize(values);
  for (const std::int64_t i : bond.order) bond.values.push_back(values[static_cast<std::size_t>(i)]);
  bond.all = bond.left = std::accumulate(values.begin(), values.end(), 0.0);
  return bond;
}

struct Removal {
  std::size_t chain = 0, bond = 0;
  double loss = 0, freed = 0;
  double ratio = std::numeric_limits<double>::infinity();  // of loss to freed; infinity: nothing can leave
};

// The ranks of a model while entries leave it.
class Shrinking {
 public:
  Shrinking(const Chains& importances, double per_entry, Ranks floors)
      : importances_(&importances), per_entry_(per_entry), floors_(std::move(floors)) {
    for (const ChainDiagonals& chain : importances) {
      std::vector<Bond>& bonds = chains_.emplace_back();
      for (const std::vector<double>& values : chain.diagonals) bonds.push_back(bond_of(values));
    }
    for (std::size_t c = 0; c < chains_.size(); ++c) {
      size_ += size_of(c);
      next_.push_back(next_of(c));
    }
  }

  double size() const { return size_; }
  double lost() const { return lost_; }
  const Removal& last() const { return last_; }  // freed 0: none has left

  Ranks ranks() const {
    Ranks ranks;
    for (const std::vector<Bond>& bonds : chains_) {
      ranks.emplace_back();
      for (const Bond& bond : bonds) ranks.back().push_back(bond.rank);
    }
    return ranks;
  }

  void lower(const Ranks& ceilings) {
    for (std::size_t c = 0; c < chains_.size(); ++c)
      for (std::size_t k = 0; k < chains_[c].size(); ++k)
        while (chains_[c][k].rank > ceilings[c][k]) remove(removal_of(c, k));
  }

  void shrink_to(double size) {
    while (size_ > size) {
      const auto next = std::min_element(next_.begin(), next_.end(),
                                         [](const Removal& a, const Removal& b) { return a.ratio < b.ratio; });
      if (next == next_.end() || next->freed == 0) return;
      remove(*next);
    }
  }

  Kept kept() const {
    Kept kept;
    for (const std::vector<Bond>& bonds : chains_) {
      kept.emplace_back();
      for (const Bond& bond : bonds) {
        auto& entries = kept.back().emplace_back(bond.order.begin(), bond.order.begin() + bond.rank);
        std::sort(entries.begin(), entries.end());
      }
    }
    return kept;
  }

 private:
  bool is_empty(std::size_t c) const {
    return std::any_of(chains_[c].begin(), chains_[c].end(), [](const Bond& bond) { return bond.rank == 0; });
  }

  double rank(std::size_t c, std::size_t k) const {  // R_k; 1 at both ends
    return k == 0 || k > chains_[c].size() ? 1 : static_cast<double>(chains_[c][k - 1].rank);
  }

  double entry_size(std::size_t c, std::size_t k) const { return static_cast<double>((*importances_)[c].sizes[k]); }

  double size_of(std::size_t c) const {
    if (is_empty(c)) return 0;
    double sum = 0;
    for (std::size_t k = 0; k < (*importances_)[c].sizes.size(); ++k)
      sum += rank(c, k) * entry_size(c, k) * rank(c, k + 1);
    for (const Bond& bond : chains_[c]) sum += per_entry_ * static_cast<double>(bond.rank);
    return sum;
  }

  Removal removal_of(std::size_t c, std::size_t k) const {
    Removal removal{.chain = c, .bond = k, .loss = chains_[c][k].least()};
    for (std::size_t other = 0; other < chains_[c].size(); ++other)
      if (other != k) removal.loss *= chains_[c][other].share();
    removal.freed = chains_[c][k].rank == 1
                        ? size_of(c)
                        : rank(c, k) * entry_size(c, k) + entry_size(c, k + 1) * rank(c, k + 2) + per_entry_;
    removal.ratio = removal.loss / std::max(removal.freed, 1.0);
    return removal;
  }

  Removal next_of(std::size_t c) const {
    Removal next;
    if (is_empty(c)) return next;
    for (std::size_t k = 0; k < chains_[c].size(); ++k)
      if (chains_[c][k].rank > floors_[c][k])
        if (const Removal removal = removal_of(c, k); removal.ratio < next.ratio) next = removal;
    return next;
  }

  void remove(const Removal& removal) {
    Bond& bond = chains_[removal.chain][removal.bond];
    const double before = size_of(removal.chain);
    bond.left = std::max(bond.left - bond.least(), 0.0);
    --bond.rank;
    size_ += size_of(removal.chain) - before;
    lost_ += removal.loss;
    last_ = removal;
    next_[removal.chain] = next_of(removal.chain);
  }

  const Chains* importances_;
  double per_entry_;
  Ranks floors_;
  std::vector<std::vector<Bond>> chains_;
  std::vector<Removal> next_;  // the cheapest removal of each chain
  double size_ = 0, lost_ = 0;
  Removal last_;
};

// Ranks that no bond may fall below, and that it must fall to.
struct Limits {
  Ranks floors, ceilings;
};

Limits floors_of_chains(const Chains& chains) {
  Limits limits;
  for (const ChainDiagonals& chain : chains) {
    limits.floors.emplace_back();
    limits.ceilings.emplace_back();
    for (const std::vector<double>& values : chain.diagonals) {
      limits.floors.back().push_back(std::min(chain.floor, std::ssize(values)));
      limits.ceilings.back().push_back(std::ssize(values));
    }
  }
  return limits;
}

Shrinking within(const Chains& chains, const SizeTarget& target, const Limits& limits) {
  Shrinking model(chains, target.per_entry, limits.floors);
  model.lower(limits.ceilings);
  model.shrink_to(target.size);
  return model;
}

// The ranks at the target.
Ranks ranks_at(const Chains& chains, const SizeTarget& target) {
  constexpr int choices = 16;  // most large entries that are decided; each takes two walks
  Limits limits = floors_of_chains(chains);
  Shrinking best = within(chains, target, limits);
  for (int i = 0; i < choices && best.size() < target.size && !target.close(best.size()); ++i) {
    const Removal large = best.last();
    if (large.freed == 0) break;
    const std::int64_t rank = best.ranks()[large.chain][large.bond];
    Limits with = limits, without = limits;
    with.floors[large.chain][large.bond] = rank + 1;
    without.ceilings[large.chain][large.bond] = rank;
    const Shrinking kept = within(chains, target, with), gone = within(chains, target, without);
    const bool keep = kept.size() <= target.size && kept.lost() < gone.lost();
    limits = keep ? with : without;
    best = keep ? kept : gone;
  }
  return best.ranks();
}

}  // namespace

Kept cut_with_least_loss(const Chains& importances, const SizeTarget& target, double allowed) {
  Shrinking model(importances, target.per_entry, ranks_at(importances, target));
  model.shrink_to(std::max(allowed, target.size));
  return model.kept();
}

}  // namespace comera::train
