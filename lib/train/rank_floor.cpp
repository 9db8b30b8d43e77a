#include "lib/train/rank_floor.h"

#include <algorithm>

#include "lib/core/error.h"
#include "lib/core/glob.h"
#include "lib/core/join.h"
#include "lib/core/options/rule.h"

namespace comera::train {
namespace {

constexpr double just_above = 1 + 1.0 / 64;

std::string word_of(const RankFloor& floor) {
  return floor.glob.empty() ? std::to_string(floor.rank) : fmt::format("{}={}", floor.glob, floor.rank);
}

bool matches(const RankFloor& floor, const std::string& name) {
  return floor.glob.empty() || glob_match(floor.glob, name);
}

}  // namespace

std::vector<RankFloor> parse_rank_floors(const std::vector<std::string>& words) {
  std::vector<RankFloor> floors;
  for (const std::string& word : words) {
    const LayerWord parts = split_layer_word(word);
    const std::optional<std::int64_t> rank = parse_rank(parts.value);
    if (!rank || (parts.by_name && parts.glob.empty()))
      fail_input(
          "[rank] --rank-floor {}: a rank of at least 1 is wanted, alone or behind GLOB=, such as '*.output.*=4'",
          word);
    floors.push_back({parts.glob, *rank});
  }
  return floors;
}

void set_floors(std::span<ChainDiagonals> chains, std::span<const RankFloor> floors) {
  for (const RankFloor& floor : floors) {
    bool matched = false;
    for (ChainDiagonals& chain : chains)
      if (matches(floor, chain.name)) chain.floor = floor.rank, matched = true;
    if (matched) continue;
    std::vector<std::string> names;
    for (const ChainDiagonals& chain : chains) names.push_back(chain.name);
    fail_input("[rank] --rank-floor {}: no layer in tensor-train or low-rank form matches; they are {}", word_of(floor),
               join(std::span(names).first(std::min<std::size_t>(8, names.size())), ", "));
  }
}

bool raise_to_floors(const Weights& weights, std::span<const RankFloor> floors, double threshold) {
  std::vector<ChainDiagonals> chains = read_diagonals(weights);
  set_floors(chains, floors);
  bool raised = false;
  std::size_t c = 0;
  for (const layers::ChainParameters& parameters : weights.model().chains()) {
    if (parameters.cores.empty()) continue;
    const ChainDiagonals& chain = chains[c++];
    for (std::size_t bond = 0; bond < chain.diagonals.size(); ++bond) {
      std::vector<double> values = chain.diagonals[bond];
      bool changed = false;
      for (const std::int64_t i : largest_of(values, chain.floor))
        if (double& value = values[static_cast<std::size_t>(i)]; value <= threshold)
          value = threshold > 0 ? threshold * just_above : 1e-6, changed = true;
      if (!changed) continue;
      raised = true;
      const plan::Tensor& target = parameters.diagonals[bond]->value;
      std::vector<std::byte> bytes(target.bytes());
      const plan::Tensor host{bytes.data(), target.dtype, target.shape, -1};
      for (std::size_t i = 0; i < values.size(); ++i) layers::store(host, static_cast<std::int64_t>(i), values[i]);
      engine::write(weights.machine(), target, bytes);
    }
  }
  return raised;
}

}  // namespace comera::train
