// Sizes as functions of the rank diagonals, on the host: what is active, what a target means, and which entries stay
// when it is met.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/train/weights.h"

namespace comera::train {

// The diagonals of one tensor train, read to the host: bonds[k] are the entries of the bond behind core k.
struct Chain {
  std::string name;
  std::vector<std::int64_t> sizes;             // s_k, one per core
  std::vector<std::vector<double>> diagonals;  // cores - 1
};

// Those of all tensor trains that still have cores, in the model's order.
std::vector<Chain> read_chains(const Weights& weights);

// Indices that stay, by chain and bond.
using Kept = std::vector<std::vector<std::vector<std::int64_t>>>;

Kept above(const std::vector<Chain>& chains, double threshold);
std::int64_t entries_of(const std::vector<Chain>& chains);
std::int64_t entries_of(const Kept& kept);
// sum_k R_{k-1} s_k R_k over chains without an empty bond: the entries of the cores that stay
// (kernels/rank_objective.h).
std::int64_t size_of(const std::vector<Chain>& chains, const Kept& kept);

// A size to be met, in entries of cores plus `per_entry` for every diagonal entry of a chain that stays.
struct SizeTarget {
  double size = 0;       // of the cores (and diagonals) alone
  double per_entry = 0;  // of a core's number, where whole-file bytes count, which hold the diagonals too
  double rest = 0;       // in the same unit: everything else in the model (and the file)
  double tolerance = 0.02;

  double measure(const std::vector<Chain>& chains, const Kept& kept) const;
  // Within the tolerance of the whole.
  bool close(double measure) const;
};

// The entries with the largest values, as many as the target allows, so that it is met as closely as single entries
// allow. Where the entries above the threshold are below the target already, all of them stay and the largest of the
// others join them.
Kept cut_to(const std::vector<Chain>& chains, const SizeTarget& target);

// S^ at D = 1 with the ranks that the model started with: CoMERA's penalty is divided by it.
double surrogate_at_start(const Model& model);

}  // namespace comera::train
