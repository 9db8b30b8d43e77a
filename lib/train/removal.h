// Physical removal of rank entries: cores, diagonals and moments are sliced, and the model is rebuilt with the smaller
// ranks.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lib/engine/engine.h"
#include "lib/train/chain_sizes.h"

namespace comera::train {

using engine::Engine;

// Ranks of every tensor train of the model if only `kept` stays (read_diagonals() order). A chain with an empty bond
// loses all its ranks, and its layer becomes its bias.
layers::RankTable ranks_of(const Model& model, const Kept& kept);

// InputError if the model has layers in tensor-train form and none of them has ranks above the model's threshold.
void require_ranks(Engine& engine);
// Warns in that case; for the end of a run.
void warn_without_ranks(Engine& engine);

// Removes everything but `kept`. Returns the number of entries removed; 0: the engine is unchanged. Adds the entries
// that each inner bond of a chain loses to `places`.
using RemovedByBond = std::map<std::string, std::vector<std::int64_t>>;
std::int64_t remove_all_but(Engine& engine, const Kept& kept, RemovedByBond* places = nullptr);

// Removes the entries that are 0, such as those that were masked in the model from which a run starts. Returns their
// number. A chain that loses a whole bond loses all its ranks; the weights mean the same.
std::int64_t remove_zeros(Engine& engine);

// The weights of an engine without masked entries (at or below the model's threshold), for export. The engine keeps its
// own weights, so that training does not depend on when it saves. A copy on the host without moments is made only if
// there are masked entries.
class LiveWeights {
 public:
  explicit LiveWeights(Engine& engine);
  const Weights& weights() const { return copy_ ? *copy_ : engine_.weights(); }

 private:
  Engine& engine_;
  std::unique_ptr<Weights> copy_;
};

// out[a, m, b] = in[left[a], m, right[b]] of a tensor [r_left, middle, r_right] with elements of `element` bytes.
std::vector<std::byte> slice(std::span<const std::byte> in, std::size_t element, std::int64_t middle,
                             std::int64_t r_right, std::span<const std::int64_t> left,
                             std::span<const std::int64_t> right);

}  // namespace comera::train
