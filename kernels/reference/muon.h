// Reference of kernels/muon.h.
#pragma once

#include <algorithm>
#include <vector>

#include "kernels/muon.h"
#include "kernels/reference/scalar.h"

namespace comera::kernels::reference {

// a b, with a [m, k] and b [k, n].
template <class T>
std::vector<T> times(const std::vector<T>& a, const std::vector<T>& b, std::int64_t m, std::int64_t k, std::int64_t n) {
  std::vector<T> c(static_cast<std::size_t>(m * n), T(0));
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t l = 0; l < k; ++l)
      for (std::int64_t j = 0; j < n; ++j)
        c[static_cast<std::size_t>(i * n + j)] +=
            a[static_cast<std::size_t>(i * k + l)] * b[static_cast<std::size_t>(l * n + j)];
  return c;
}

// The matrix with the singular vectors of x [rows, columns] and singular values near 1.
template <class T>
std::vector<T> orthogonalised(std::vector<T> x, std::int64_t rows, std::int64_t columns) {
  using std::sqrt;
  T square_sum(0);
  for (const T& one : x) square_sum += one * one;
  if (real_part(square_sum) == 0) return x;
  for (T& one : x) one = one / sqrt(square_sum);
  const MuonPolynomial p;
  for (int iteration = 0; iteration < muon_iterations; ++iteration) {
    std::vector<T> turned(x.size(), T(0));
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j)
        turned[static_cast<std::size_t>(j * rows + i)] = x[static_cast<std::size_t>(i * columns + j)];
    // x (x1 I + x3 S + x5 S^2) with S = x^T x, whichever side is longer: the same polynomial of singular values
    const std::vector<T> square = times(turned, x, columns, rows, columns),
                         fourth = times(square, square, columns, columns, columns);
    std::vector<T> factor(square.size(), T(0));
    for (std::size_t e = 0; e < factor.size(); ++e)
      factor[e] = T(static_cast<double>(p.x3)) * square[e] + T(static_cast<double>(p.x5)) * fourth[e];
    for (std::int64_t j = 0; j < columns; ++j)
      factor[static_cast<std::size_t>(j * columns + j)] += T(static_cast<double>(p.x1));
    x = times(x, factor, rows, columns, columns);
  }
  return x;
}

template <class T>
void compute(const Muon& a) {
  if (a.scalars->finite == 0) return;
  for (int i = 0; i < a.count; ++i) {
    const MuonTensor& t = a.tensors[i];
    const auto count = static_cast<std::size_t>(t.rows * t.columns);
    const T b(a.momentum), rest(1 - a.momentum);
    std::vector<T> x(count, T(0));
    for (std::size_t e = 0; e < count; ++e) {
      const T g = in<T>(t.gradient)[e] * T(a.scalars->gradient_scale);
      T& m = out<T>(t.momentum)[e];
      m = b * m + rest * g;
      x[e] = b * m + rest * g;
    }
    x = orthogonalised(std::move(x), t.rows, t.columns);
    const T size(0.2 * std::sqrt(static_cast<double>(std::max(t.rows, t.columns))));
    const T rate(t.scalars->learning_rate * static_cast<double>(t.rate_scale)), decay(t.scalars->weight_decay);
    for (std::size_t e = 0; e < count; ++e) {
      T& w = out<T>(t.value)[e];
      w -= rate * (decay * w + size * x[e]);
    }
  }
}

}  // namespace comera::kernels::reference
