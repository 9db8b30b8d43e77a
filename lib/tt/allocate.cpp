#include "lib/tt/allocate.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lib/core/error.h"

namespace comera::tt {
namespace {

std::int64_t top_rank(const LossCurve& layer) {
  const auto table = static_cast<std::int64_t>(layer.losses.size()) - 1;
  return layer.largest_rank > 0 ? std::min(layer.largest_rank, table) : table;
}

std::int64_t bottom_rank(const LossCurve& layer) {
  return std::min(std::max<std::int64_t>(layer.smallest_rank, 1), top_rank(layer));
}

double share_left(const LossCurve& layer, std::int64_t rank) {
  return layer.losses[0] > 0 ? layer.losses[static_cast<std::size_t>(rank)] / layer.losses[0] : 0;
}

Allotment at_rank(const LossCurve& layer, std::int64_t rank) {
  return {false, rank, layer.bytes[static_cast<std::size_t>(rank)], share_left(layer, rank)};
}

Allotment kept(const LossCurve& layer) { return {true, 0, layer.dense_bytes, 0}; }

Allotment at_rank_or_dense(const LossCurve& layer, std::int64_t rank) {
  const Allotment cut = at_rank(layer, rank);
  return layer.may_be_dense && cut.bytes >= layer.dense_bytes ? kept(layer) : cut;
}

std::int64_t rounded_up(const LossCurve& layer, std::int64_t rank) {
  if (rank > layer.multiple) rank = (rank + layer.multiple - 1) / layer.multiple * layer.multiple;
  return std::min(rank, top_rank(layer));
}

// The options of a layer, the cheapest first. Ranks that cost as much as dense are left out.
std::vector<Allotment> options(const LossCurve& layer, std::int64_t lowest) {
  std::vector<Allotment> all;
  for (std::int64_t rank = lowest; rank <= top_rank(layer); ++rank) {
    const bool aligned = rank <= layer.multiple || rank % layer.multiple == 0 || rank == lowest;
    const Allotment option = at_rank(layer, rank);
    if (aligned && (!layer.may_be_dense || option.bytes < layer.dense_bytes)) all.push_back(option);
  }
  if (layer.may_be_dense) all.push_back(kept(layer));
  std::stable_sort(all.begin(), all.end(), [](const Allotment& a, const Allotment& b) { return a.bytes < b.bytes; });
  return all;
}

// One step from an option of a layer to a larger one. water_fill() steps along the lower convex hull of the options.
struct Step {
  std::size_t layer = 0, option = 0;
  double gain = 0;  // weighted loss per byte
};

std::vector<std::size_t> lower_hull(const std::vector<Allotment>& options) {
  std::vector<std::size_t> hull;
  const auto slope = [&](std::size_t a, std::size_t b) {
    return (options[a].loss - options[b].loss) /
           static_cast<double>(std::max<std::int64_t>(1, options[b].bytes - options[a].bytes));
  };
  for (std::size_t i = 0; i < options.size(); ++i) {
    if (!hull.empty() && options[i].loss >= options[hull.back()].loss) continue;
    while (hull.size() >= 2 && slope(hull[hull.size() - 2], hull.back()) <= slope(hull.back(), i)) hull.pop_back();
    hull.push_back(i);
  }
  return hull;
}

std::vector<Step> steps_of(const std::vector<std::vector<Allotment>>& menus, const std::vector<LossCurve>& layers) {
  std::vector<Step> steps;
  for (std::size_t l = 0; l < menus.size(); ++l) {
    const std::vector<std::size_t> hull = lower_hull(menus[l]);
    for (std::size_t i = 1; i < hull.size(); ++i) {
      const Allotment &from = menus[l][hull[i - 1]], &to = menus[l][hull[i]];
      steps.push_back({l, hull[i],
                       layers[l].weight * (from.loss - to.loss) /
                           static_cast<double>(std::max<std::int64_t>(1, to.bytes - from.bytes))});
    }
  }
  std::stable_sort(steps.begin(), steps.end(), [](const Step& a, const Step& b) { return a.gain > b.gain; });
  return steps;
}

Allocation total(std::vector<Allotment> layers, const std::vector<LossCurve>& curves) {
  Allocation allocation{std::move(layers), 0, 0};
  for (std::size_t l = 0; l < curves.size(); ++l) {
    allocation.bytes += allocation.layers[l].bytes;
    allocation.loss += curves[l].weight * allocation.layers[l].loss;
  }
  return allocation;
}

template <class F>
Allocation each(const std::vector<LossCurve>& layers, F&& choose) {
  std::vector<Allotment> all;
  for (const LossCurve& layer : layers) all.push_back(choose(layer));
  return total(std::move(all), layers);
}

// Spends the remaining bytes: takes the option with the best gain per byte that still fits, until none fits.
void spend_rest(const std::vector<std::vector<Allotment>>& menus, const std::vector<LossCurve>& layers,
                std::vector<std::size_t>& at, std::int64_t rest) {
  for (;;) {
    Step best;
    for (std::size_t l = 0; l < menus.size(); ++l)
      for (std::size_t i = at[l] + 1; i < menus[l].size(); ++i) {
        const Allotment &from = menus[l][at[l]], &to = menus[l][i];
        if (to.bytes - from.bytes > rest) break;
        const double gain = layers[l].weight * (from.loss - to.loss) /
                            static_cast<double>(std::max<std::int64_t>(1, to.bytes - from.bytes));
        if (gain > best.gain) best = {l, i, gain};
      }
    if (best.gain <= 0) return;
    rest -= menus[best.layer][best.option].bytes - menus[best.layer][at[best.layer]].bytes;
    at[best.layer] = best.option;
  }
}

// A uniform share rounds every layer's rank down. The bytes that remain are spent on the next rank of layers, in the
// order of the least excess over the share.
Allocation with_last_ranks(const std::vector<LossCurve>& layers, Allocation allocation, std::int64_t budget,
                           double share) {
  const auto next_of = [&](std::size_t l) {
    return at_rank(layers[l], rounded_up(layers[l], allocation.layers[l].rank + 1));
  };
  std::vector<std::pair<double, std::size_t>> next;
  for (std::size_t l = 0; l < layers.size(); ++l) {
    const Allotment& at = allocation.layers[l];
    if (at.dense || at.rank >= top_rank(layers[l])) continue;
    const Allotment more = next_of(l);
    if (more.bytes < layers[l].dense_bytes || !layers[l].may_be_dense)
      next.emplace_back(static_cast<double>(more.bytes) / static_cast<double>(layers[l].dense_bytes) - share, l);
  }
  std::stable_sort(next.begin(), next.end());
  for (const auto& [excess, l] : next) {
    const Allotment more = next_of(l);
    if (allocation.bytes - allocation.layers[l].bytes + more.bytes > budget) continue;
    allocation.bytes += more.bytes - allocation.layers[l].bytes;
    allocation.layers[l] = more;
  }
  return total(std::move(allocation.layers), layers);
}

void check_budget(const std::vector<LossCurve>& layers, std::int64_t budget) {
  const std::int64_t least = smallest_bytes(layers);
  if (least > budget)
    fail_input("[budget] {} bytes are too few for {} layers; the least possible is {} bytes", budget, layers.size(),
               least);
}

}  // namespace

std::int64_t smallest_bytes(const std::vector<LossCurve>& layers) {
  return each(layers, [](const LossCurve& layer) { return at_rank_or_dense(layer, bottom_rank(layer)); }).bytes;
}

Allocation by_rank(const std::vector<LossCurve>& layers, std::int64_t rank) {
  return each(layers, [&](const LossCurve& layer) {
    return at_rank_or_dense(layer,
                            std::clamp(rank, bottom_rank(layer), static_cast<std::int64_t>(layer.losses.size()) - 1));
  });
}

Allocation by_tolerance(const std::vector<LossCurve>& layers, double tolerance) {
  return each(layers, [&](const LossCurve& layer) {
    std::int64_t rank = bottom_rank(layer);
    while (rank < top_rank(layer) && std::sqrt(share_left(layer, rank)) > tolerance) ++rank;
    const bool missed = layer.may_be_dense && std::sqrt(share_left(layer, rank)) > tolerance;
    return missed ? kept(layer) : at_rank_or_dense(layer, rounded_up(layer, rank));
  });
}

Allocation by_share(const std::vector<LossCurve>& layers, std::int64_t budget) {
  check_budget(layers, budget);
  std::vector<std::vector<Allotment>> menus;
  for (const LossCurve& layer : layers) menus.push_back(options(layer, bottom_rank(layer)));
  const auto with_share = [&](double share) {
    std::vector<Allotment> all;
    for (std::size_t l = 0; l < layers.size(); ++l) {
      const double limit = share * static_cast<double>(layers[l].dense_bytes);
      const auto beyond = std::upper_bound(
          menus[l].begin(), menus[l].end(), limit,
          [](double bytes, const Allotment& option) { return bytes < static_cast<double>(option.bytes); });
      all.push_back(beyond == menus[l].begin() ? menus[l].front() : *(beyond - 1));
    }
    return total(std::move(all), layers);
  };
  double low = 0, high = 2;
  if (with_share(high).bytes <= budget) return with_share(high);
  for (int i = 0; i < 50; ++i) (with_share((low + high) / 2).bytes <= budget ? low : high) = (low + high) / 2;
  return with_last_ranks(layers, with_share(low), budget, low);
}

Allocation water_fill(const std::vector<LossCurve>& layers, std::int64_t budget, double floor) {
  const Allocation uniform = by_share(layers, budget);
  std::vector<std::vector<Allotment>> menus;
  std::int64_t rest = budget;
  for (std::size_t l = 0; l < layers.size(); ++l) {
    const std::int64_t even = uniform.layers[l].dense ? top_rank(layers[l]) : uniform.layers[l].rank;
    const double share = layers[l].menu ? 0 : floor;
    const auto lowest = static_cast<std::int64_t>(std::floor(share * static_cast<double>(even)));
    menus.push_back(options(layers[l], std::max(bottom_rank(layers[l]), lowest)));
    rest -= menus.back().front().bytes;
  }
  std::vector<std::size_t> at(layers.size());
  for (const Step& step : steps_of(menus, layers)) {
    const std::int64_t more = menus[step.layer][step.option].bytes - menus[step.layer][at[step.layer]].bytes;
    if (more > rest) break;
    rest -= more;
    at[step.layer] = step.option;
  }
  spend_rest(menus, layers, at, rest);
  std::vector<Allotment> chosen;
  for (std::size_t l = 0; l < layers.size(); ++l) chosen.push_back(menus[l][at[l]]);
  return total(std::move(chosen), layers);
}

}  // namespace comera::tt
