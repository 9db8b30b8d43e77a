// Chains of given dense matrices by successive truncated SVDs (Oseledets 2011), without input statistics.
#pragma once

#include <optional>
#include <vector>

#include "lib/tt/chain.h"

namespace comera::tt {

// The truncation of every bond. Set exactly one of `ranks` (an upper limit per bond, both ends included) and
// `tolerance`. `middle_rank` may also limit the middle bond of a tt.
struct Truncation {
  Sizes ranks;
  // For the whole chain: ||W - chain|| <= tolerance ||W||: delta = tolerance ||W|| / sqrt(D - 1) per bond.
  std::optional<double> tolerance;
  std::optional<std::int64_t> middle_rank;
};

struct Fit {
  Chain chain;
  // Norm that the cut of each inner bond lost, relative to ||W||; rel_error <= sqrt(sum of squares).
  std::vector<double> discarded;
  double rel_error = 0;  // ||W - chain|| / ||W||, computed from the cores
};

// W [in x out] in CoMERA's order: in modes, then out modes. InputError if a number is not finite or the modes do not
// multiply to the size.
Fit tt_svd(const Matrix& weight, const Sizes& in_modes, const Sizes& out_modes, const Truncation& truncation);

// Table [rows x columns] as TTM. The product of the row modes may exceed its rows; the additional rows are zero.
// `row_weights` [rows], if given, weights the squared error of each row (its frequency). The table is scaled by the
// separable part of the weights, cut, scaled back and refined under the exact weights (lib/tt/weighted_table.h). Then
// `discarded` belongs to the scaled table; rel_error is unweighted.
Fit ttm_svd(const Matrix& table, const Sizes& row_modes, const Sizes& column_modes, const Truncation& truncation,
            const std::vector<double>& row_weights = {});

// A lower bound for the error ||E|| / ||table|| of every TTM of these ranks, with rows weighted as above: the tail of
// each unfolding's singular values (Eckart and Young). Uses only the rows that fill whole slices of the first mode,
// because values in padding are free. If the weights are not a product over the modes, the bound uses a product below
// them and is less tight. Bonds with both sides wider than 1,500 are skipped.
double ttm_error_bound(const Matrix& table, const Sizes& row_modes, const Sizes& column_modes, const Sizes& ranks,
                       const std::vector<double>& row_weights = {});

struct Balanced {
  Chain chain;
  std::vector<std::vector<double>> singular_values;  // of L R by inner bond, the largest first
};
// The same matrix with equal halves at every inner bond: with left factor L and right factor R there, Lᵀ L = R Rᵀ = the
// diagonal of the singular values of L R. A rank above what the sizes can have becomes smaller. A gauge is not allowed.
Balanced balance_chain(Chain chain);

// Cuts the chain to smaller ranks: right-to-left QR sweep, then truncated SVDs from the left. Keeps the order. A gauge
// is not allowed.
Fit round_chain(const Chain& chain, const Truncation& truncation);

}  // namespace comera::tt
