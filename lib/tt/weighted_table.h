// Tables in TTM form when some rows matter more than others: min sum_t f_t ||e_t - ê_t||², f_t how often row t is
// looked up.
#pragma once

#include <vector>

#include "lib/tt/chain.h"

namespace comera::tt {

// Places of the entries of a table in the tensor whose axes are (i_1 j_1) (i_2 j_2) ..., the order of the cores: entry
// (i, j) is at rows[i] + columns[j].
struct Places {
  std::vector<std::int64_t> rows, columns;
};
Places places(const Sizes& row_modes, const Sizes& column_modes);

// [1 x everything], rows beyond the table zero; row i times row_factors[i] where these are given.
Matrix in_core_order(const Matrix& table, const Sizes& row_modes, const Sizes& column_modes,
                     const std::vector<double>& row_factors = {});

// Factors of rows that are products of one factor per row mode, nearest to sqrt(weights) in the logarithm. Unlike
// others they can be taken out of the cores again without larger ranks.
using ModeFactors = std::vector<std::vector<double>>;
ModeFactors separable_factors(const std::vector<double>& weights, const Sizes& row_modes);
std::vector<double> row_factors(const ModeFactors& factors, std::int64_t rows);
void divide_rows(Chain& chain, const ModeFactors& factors);

// Alternating least squares under the weights as they are: per sweep every core in turn, each of its row slices by its
// normal equations
// ((r r') wide; a core where that exceeds 1,500 stays as it is). The weighted error never rises.
void refine_weighted(Chain& chain, const Matrix& table, const std::vector<double>& row_weights, int sweeps = 2);

}  // namespace comera::tt
