#include "lib/compress/fit/row_errors.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace comera::compress {

using tt::Matrix;

FittedRow rows_of(const Matrix& fitted) {
  return [&](std::int64_t r) { return fitted.row(r); };
}

FittedRow rows_of(const quant::Quantised& table) {
  return [&table, row = Matrix()](std::int64_t r) mutable {
    row = quant::expand_table(quant::lines_of(table, r, 1));
    return std::as_const(row).row(0);
  };
}

FittedRow with_exact_rows(FittedRow fitted, const std::vector<std::int32_t>& ids, FittedRow exact) {
  if (ids.empty()) return fitted;
  return [&ids, fitted = std::move(fitted), exact = std::move(exact)](std::int64_t r) {
    return std::binary_search(ids.begin(), ids.end(), r) ? exact(r) : fitted(r);
  };
}

double rows_lost(const Matrix& weight, const FittedRow& fitted, const std::vector<double>& weights) {
  double sum = 0;
  for (std::int64_t r = 0; r < weight.rows; ++r) {
    const double* other = fitted ? fitted(r) : nullptr;
    double row = 0;
    for (std::int64_t c = 0; c < weight.columns; ++c) {
      const double error = weight(r, c) - (other ? other[c] : 0);
      row += error * error;
    }
    sum += (weights.empty() ? 1 : weights[static_cast<std::size_t>(r)]) * row;
  }
  return sum;
}

double root_of_ratio(double part, double whole) { return whole > 0 ? std::sqrt(std::max(part, 0.0) / whole) : 0; }

}  // namespace comera::compress
