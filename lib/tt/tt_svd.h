// Tensor trains of given dense matrices by successive truncated SVDs (Oseledets 2011), without knowledge of the inputs.
#pragma once

#include <optional>
#include <vector>

#include "lib/tt/chain.h"

namespace comera::tt {

// How far every bond is cut. Exactly one of `ranks` (an upper limit per bond, both ends included) and `tolerance`
// decides; `middle_rank` may limit the middle bond of a tt besides.
struct Truncation {
  Sizes ranks;
  std::optional<double> tolerance;  // of the whole chain, ||W - chain|| <= tolerance ||W||: delta = tolerance ||W|| /
                                    // sqrt(D - 1) per bond
  std::optional<std::int64_t> middle_rank;
};

struct Fit {
  Chain chain;
  std::vector<double>
      discarded;  // per inner bond, the norm that its cut lost, relative to ||W||; rel_error <= sqrt(sum of squares)
  double rel_error = 0;  // ||W - chain|| / ||W||, computed from the cores
};

// W [in x out] in CoMERA's order: in modes, then out modes. InputError where a number is not finite or a mode does not
// divide.
Fit tt_svd(const Matrix& weight, const Sizes& in_modes, const Sizes& out_modes, const Truncation& truncation);

// Table [rows x columns] as TTM; the row modes may multiply to more than its rows (those are zero). `row_weights`
// [rows], where given: how much a row's squared error counts (its frequency): the table is scaled by what of them is
// separable, cut, scaled back and refined under the weights as they are (lib/tt/weighted_table.h). `discarded` is then
// that of the scaled table; rel_error is unweighted.
Fit ttm_svd(const Matrix& table, const Sizes& row_modes, const Sizes& column_modes, const Truncation& truncation,
            const std::vector<double>& row_weights = {});

// What every TTM of these ranks loses at least, ||E|| / ||table|| with rows weighted as above: the tail of each
// unfolding's singular values (Eckart and Young), of the rows that fill whole slices of the first mode, because what a
// chain does to padding is free. Under weights that are not a product over the modes it is a product below them that
// counts, so the bound is less tight. Bonds where both sides are wider than 1,500 say nothing.
double ttm_error_bound(const Matrix& table, const Sizes& row_modes, const Sizes& column_modes, const Sizes& ranks,
                       const std::vector<double>& row_weights = {});

// The chain cut to smaller ranks: right-to-left QR sweep, then truncated SVDs from the left. Order stays; a gauge is
// not allowed.
Fit round_chain(const Chain& chain, const Truncation& truncation);

}  // namespace comera::tt
