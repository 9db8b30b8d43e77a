// Random matrices for the tests of lib/tt.
#pragma once

#include <algorithm>
#include <cmath>
#include <random>

#include "lib/tt/matrix.h"

namespace comera::test {

inline tt::Matrix random_matrix(std::int64_t rows, std::int64_t columns, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<double> normal;
  tt::Matrix a(rows, columns);
  for (double& value : a.values) value = normal(engine);
  return a;
}

// Singular values 1, decay, decay², ...
inline tt::Matrix decaying_matrix(std::int64_t rows, std::int64_t columns, double decay, unsigned seed) {
  const std::int64_t k = std::min(rows, columns);
  tt::Matrix left = tt::orthonormal_columns(random_matrix(rows, k, seed));
  const tt::Matrix right = tt::orthonormal_columns(random_matrix(columns, k, seed + 1));
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < k; ++j) left(i, j) *= std::pow(decay, static_cast<double>(j));
  return tt::multiply_nt(left, right);
}

// Positive definite, with eigenvalues from 1 down to 1 / condition, evenly spaced in the logarithm, and channels of
// different size.
inline tt::Matrix random_moment(std::int64_t size, double condition, unsigned seed) {
  tt::Matrix basis = tt::orthonormal_columns(random_matrix(size, size, seed));
  for (std::int64_t i = 0; i < size; ++i)
    for (std::int64_t j = 0; j < size; ++j)
      basis(i, j) *=
          std::pow(condition, -0.5 * static_cast<double>(j) / static_cast<double>(std::max<std::int64_t>(size - 1, 1)));
  return tt::gram(tt::transposed(basis));
}

}  // namespace comera::test
