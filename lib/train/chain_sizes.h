// Computes sizes from the rank diagonals on the host: the active size, the size of a target, and the entries that stay
// when the target is met.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/engine/weights.h"

namespace comera::train {

using engine::Weights;
using layers::Model;
using layers::Parameter;

// The diagonals of one tensor train, copied to the host. bonds[k] holds the entries of the bond behind core k.
struct ChainDiagonals {
  std::string name;
  std::vector<std::int64_t> sizes;             // s_k, one per core
  std::vector<std::vector<double>> diagonals;  // cores - 1
  std::int64_t floor = 0;                      // entries of each bond that stay whatever their values are
};

// Indices of the `count` largest values, of equal ones the first; all if there are fewer.
std::vector<std::int64_t> largest_of(const std::vector<double>& values, std::int64_t count);

// The tensor trains of a model that still have cores, in its order, with diagonals of zeros.
std::vector<ChainDiagonals> chains_of(const Model& model);
// Reads the diagonals of all tensor trains that still have cores, in the model's order.
std::vector<ChainDiagonals> read_diagonals(const Weights& weights);

// Indices of the entries that stay, by chain and bond.
using Kept = std::vector<std::vector<std::vector<std::int64_t>>>;

// Entries above the threshold, and as many of the largest others as the floors need.
Kept above(const std::vector<ChainDiagonals>& chains, double threshold);
// The entries that the floors keep alone. A chain without a floor has none.
Kept floors_of(const std::vector<ChainDiagonals>& chains);
std::int64_t entries_of(const std::vector<ChainDiagonals>& chains);
std::int64_t entries_of(const Kept& kept);
// sum_k R_{k-1} s_k R_k over all chains without an empty bond: the number of core entries that stay
// (kernels/rank_objective.h).
std::int64_t size_of(const std::vector<ChainDiagonals>& chains, const Kept& kept);

// A size to meet, in core entries plus `per_entry` for every diagonal entry of a chain that stays.
struct SizeTarget {
  double size = 0;  // of the cores (and diagonals) alone
  // Cost of a diagonal entry in core entries, for targets in bytes of the file, which also holds the diagonals.
  double per_entry = 0;
  double rest = 0;  // everything else in the model (and the file), in the same unit
  double tolerance = 0.02;

  double measure(const std::vector<ChainDiagonals>& chains, const Kept& kept) const;
  // True if the difference is within the tolerance of the total size.
  bool close(double measure) const;
};

// Keeps the entries with the largest values, as many as the target allows. The result meets the target as closely as
// single entries permit. If the entries above the threshold are already below the target, all of them stay and the
// largest of the others are added. Floors come first, even if they alone exceed the target.
Kept cut_to(const std::vector<ChainDiagonals>& chains, const SizeTarget& target);

// S^ at D = 1 with the initial ranks of the model. CoMERA's penalty is divided by it.
double surrogate_at_start(const Model& model);

}  // namespace comera::train
