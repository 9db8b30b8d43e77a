// Squared errors of weights, row by row.
#pragma once

#include <functional>
#include <vector>

#include "lib/quant/rounding.h"

namespace comera::compress {

// Row r of a fitted weight, valid until the next call. Empty: zeros.
using FittedRow = std::function<const double*(std::int64_t r)>;

FittedRow rows_of(const tt::Matrix& fitted);
FittedRow rows_of(const quant::Quantised& table);  // expanded one by one, because tables are large

// The rows `ids`, which rise, are those of `exact`.
FittedRow with_exact_rows(FittedRow fitted, const std::vector<std::int32_t>& ids, FittedRow exact);

// Sum over the rows of weights[r] ||row r - fitted row r||². `weights`: empty: 1.
double rows_lost(const tt::Matrix& weight, const FittedRow& fitted, const std::vector<double>& weights);

// sqrt(part / whole); 0 if the whole is 0.
double root_of_ratio(double part, double whole);

}  // namespace comera::compress
