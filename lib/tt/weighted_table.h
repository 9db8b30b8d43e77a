// Tables in TTM form with row weights: min sum_t f_t ||e_t - ê_t||², where f_t is the number of look-ups of row t.
#pragma once

#include <vector>

#include "lib/tt/chain.h"

namespace comera::tt {

// Positions of a table's entries in the tensor with axes (i_1 j_1) (i_2 j_2) ..., the order of the cores: entry (i, j)
// is at rows[i] + columns[j].
struct Places {
  std::vector<std::int64_t> rows, columns;
};
Places places(const Sizes& row_modes, const Sizes& column_modes);

// The entries as [1 x all]. Rows beyond the table are zero. Row i is multiplied by row_factors[i] if these are given.
Matrix in_core_order(const Matrix& table, const Sizes& row_modes, const Sizes& column_modes,
                     const std::vector<double>& row_factors = {});

// Row factors that are products of one factor per row mode, nearest to sqrt(weights) in the logarithm. Such factors can
// be divided out of the cores again without larger ranks.
using ModeFactors = std::vector<std::vector<double>>;
ModeFactors separable_factors(const std::vector<double>& weights, const Sizes& row_modes);
std::vector<double> row_factors(const ModeFactors& factors, std::int64_t rows);
void divide_rows(Chain& chain, const ModeFactors& factors);

// Alternating least squares under the exact weights. Each sweep updates every core in turn, each of its row slices by
// its normal equations of width r r'. A core whose r r' exceeds 1,500 stays as it is. The weighted error never rises.
void refine_weighted(Chain& chain, const Matrix& table, const std::vector<double>& row_weights, int sweeps = 2);

}  // namespace comera::tt
