#include "lib/tt/filter.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lib/core/error.h"

namespace comera::tt {
namespace {

constexpr int probes = 16, probe_steps = 24;
// Largest amplification in one round: float keeps two digits of the directions that are not amplified.
constexpr double widest = 1e5;
constexpr int first_degree = 6, next_degree = 4, most_rounds = 12;

// Random numbers of mean 0 and variance 1/3. The same shape always gives the same numbers.
FloatMatrix random_rows(std::int64_t rows, std::int64_t columns) {
  FloatMatrix a(rows, columns);
  std::uint64_t state = 0x9e3779b97f4a7c15ull;
  for (float& value : a.values) {
    std::uint64_t z = (state += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    value = static_cast<float>(static_cast<std::int64_t>(z ^ (z >> 31))) * 0x1p-63f;
  }
  return a;
}

struct Edge {
  double largest = 0, cut = 0;  // the largest eigenvalue, and the value below which the filter damps
};

// One Lanczos run per row of a small block: alphas and betas of every step.
struct Tridiagonal {
  std::vector<double> diagonal, beside;
};

std::vector<Tridiagonal> lanczos(const FloatMatrix& gram, int steps) {
  FloatMatrix q = random_rows(probes, gram.rows), before(probes, gram.rows);
  std::vector<Tridiagonal> runs(probes);
  const auto normalise = [&](std::int64_t i) {
    float* row = q.row(i);
    double norm = 0;
    for (std::int64_t j = 0; j < q.columns; ++j) norm += static_cast<double>(row[j]) * row[j];
    norm = std::sqrt(norm);
    for (std::int64_t j = 0; j < q.columns; ++j) row[j] = norm > 0 ? static_cast<float>(row[j] / norm) : 0;
    return norm;
  };
  for (std::int64_t i = 0; i < probes; ++i) normalise(i);
  for (int step = 0; step < steps; ++step) {
    FloatMatrix next(probes, gram.rows);
    multiply_into(1, q, gram, 0, next);
    for (std::int64_t i = 0; i < probes; ++i) {
      Tridiagonal& run = runs[static_cast<std::size_t>(i)];
      const double beta = run.beside.empty() ? 0 : run.beside.back();
      double alpha = 0;
      for (std::int64_t j = 0; j < q.columns; ++j) alpha += static_cast<double>(next.row(i)[j]) * q.row(i)[j];
      for (std::int64_t j = 0; j < q.columns; ++j)
        next.row(i)[j] -= static_cast<float>(alpha) * q.row(i)[j] + static_cast<float>(beta) * before.row(i)[j];
      run.diagonal.push_back(alpha);
    }
    before = std::move(q);
    q = std::move(next);
    for (std::int64_t i = 0; i < probes; ++i) runs[static_cast<std::size_t>(i)].beside.push_back(normalise(i));
  }
  return runs;
}

// Estimates a value that `count` eigenvalues exceed, from the spectral density of a few Lanczos runs (stochastic
// Lanczos quadrature).
Edge estimated_edge(const FloatMatrix& gram, std::int64_t count) {
  const int steps = static_cast<int>(std::min<std::int64_t>(probe_steps, gram.rows));
  std::vector<std::pair<double, double>> nodes;  // eigenvalue, estimated number of such eigenvalues
  for (const Tridiagonal& run : lanczos(gram, steps)) {
    Matrix t(steps, steps);
    for (int i = 0; i < steps; ++i) {
      t(i, i) = run.diagonal[static_cast<std::size_t>(i)];
      if (i + 1 < steps) t(i, i + 1) = t(i + 1, i) = run.beside[static_cast<std::size_t>(i)];
    }
    const SymmetricEigen eigen = symmetric_eigen(std::move(t));
    for (int i = 0; i < steps; ++i) {
      const double share = eigen.vectors(i, 0) * eigen.vectors(i, 0);
      nodes.emplace_back(eigen.values[static_cast<std::size_t>(i)], share * static_cast<double>(gram.rows) / probes);
    }
  }
  std::sort(nodes.begin(), nodes.end(), std::greater<>());
  Edge edge{nodes.front().first, nodes.front().first};
  double above = 0;
  for (const auto& [value, weight] : nodes) {
    if (above + weight / 2 > static_cast<double>(count)) break;
    above += weight;
    edge.cut = value;
  }
  return edge;
}

void shift_diagonal(FloatMatrix& a, double by) {
  for (std::int64_t i = 0; i < a.rows; ++i) a(i, i) = static_cast<float>(a(i, i) + by);
}

// The largest degree of a filter at which the amplified directions do not drown the others in rounding.
int degree_within(const Edge& edge) {
  const double half = edge.cut / 2, end = std::max(1 + 1e-6, (edge.largest - half) / half);
  return std::max(1, static_cast<int>(std::acosh(widest) / std::acosh(end)));
}

// x <- T_degree((2 G - cut) / cut) x: components of the rows of x along eigenvectors below the cut stay within ±1,
// those above grow.
void filter(FloatMatrix& gram, const Edge& edge, int degree, FloatMatrix& x) {
  const double half = edge.cut / 2;
  const auto scale = static_cast<float>(1 / half);
  shift_diagonal(gram, -half);
  FloatMatrix y(x.rows, x.columns);
  multiply_into(scale, x, gram, 0, y);
  for (int k = 1; k < degree; ++k) {
    multiply_into(2 * scale, y, gram, -1, x);
    std::swap(x, y);
  }
  x = std::move(y);
  shift_diagonal(gram, half);
}

// Orthonormal rows of the same space: by Cholesky of the Gram matrix in double, or by reflections if the rows are
// linearly dependent.
Matrix orthonormal(const FloatMatrix& x) {
  Matrix rows = to_double(x);
  Matrix l = gram_of_rows(rows);
  if (!cholesky(l)) return transposed(orthonormal_columns(transposed(rows)));
  solve_lower(l, rows);
  return rows;
}

// Result of the Rayleigh-Ritz method: the rows of x turned into approximate eigenvectors.
struct Ritz {
  FloatMatrix vectors;
  std::vector<double> values, residuals;  // squared norm of G q - θ q
};

Ritz rayleigh_ritz(const FloatMatrix& gram, const FloatMatrix& x) {
  const FloatMatrix q = to_float(orthonormal(x));
  FloatMatrix image(q.rows, q.columns), h(q.rows, q.rows);
  multiply_into(1, q, gram, 0, image);
  multiply_nt_into(1, image, q, 0, h);
  Matrix projected = to_double(h);
  symmetrize(projected);
  SymmetricEigen eigen = symmetric_eigen(std::move(projected));
  const FloatMatrix turn = to_float(eigen.vectors);
  Ritz ritz{FloatMatrix(q.rows, q.columns), std::move(eigen.values),
            std::vector<double>(static_cast<std::size_t>(q.rows))};
  multiply_into(1, turn, q, 0, ritz.vectors);
  FloatMatrix turned(q.rows, q.columns);
  multiply_into(1, turn, image, 0, turned);
  for (std::int64_t i = 0; i < q.rows; ++i)
    for (std::int64_t j = 0; j < q.columns; ++j) {
      const double off = turned(i, j) - ritz.values[static_cast<std::size_t>(i)] * ritz.vectors(i, j);
      ritz.residuals[static_cast<std::size_t>(i)] += off * off;
    }
  return ritz;
}

// The gain of the true eigenvectors over the first `count` Ritz vectors, to second order. Assumes that no eigenvalue
// outside the space is above its edge.
double gap_of(const Ritz& ritz, std::int64_t count) {
  const double edge = ritz.values.back(),
               least = std::numeric_limits<float>::epsilon() * std::max(ritz.values.front(), 0.0);
  double gap = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
    if (ritz.residuals[i] > 0)
      gap += ritz.residuals[i] / std::max(ritz.values[i] - edge, std::max(least, std::numeric_limits<double>::min()));
  return gap;
}

double largest_entry(const Matrix& a) {
  double largest = 0;
  for (const double value : a.values) largest = std::max(largest, std::abs(value));
  return largest;
}

double left_of(const FloatMatrix& gram, const Ritz& ritz, std::int64_t count) {
  double left = 0;
  for (std::int64_t i = 0; i < gram.rows; ++i) left += gram(i, i);
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) left -= ritz.values[i];
  return left;
}

}  // namespace

std::int64_t filtered_columns(std::int64_t side, std::int64_t count) {
  return std::min(side, count + count / 16 + side / 32 + 16);
}

LeadingSpace leading_space(const Matrix& a, bool of_rows, std::int64_t count, double tolerance) {
  const double size = largest_entry(a),
               scale = size > 0 ? 1 / size : 1;  // squares of extreme weights would leave the range of float
  FloatMatrix gram = of_rows ? gram_of_rows(to_float(a, scale)) : tt::gram(to_float(a, scale));
  FloatMatrix x = random_rows(filtered_columns(gram.rows, count), gram.rows);
  Edge edge = estimated_edge(gram, x.rows);
  Ritz ritz;
  double gap = std::numeric_limits<double>::infinity();
  for (int round = 0; round < most_rounds; ++round) {
    for (int left = round == 0 ? first_degree : next_degree; left > 0 && edge.cut > 0;) {
      const int degree = std::min(left, degree_within(edge));
      filter(gram, edge, degree, x);
      left -= degree;
      if (left > 0) x = to_float(orthonormal(x));
    }
    ritz = rayleigh_ritz(gram, x);
    const double before = gap, left = left_of(gram, ritz, count);
    gap = gap_of(ritz, count);
    // Below the resolution of float the iteration cannot improve the basis.
    if (gap <= tolerance * left ||
        left <= std::numeric_limits<float>::epsilon() * static_cast<double>(count) * ritz.values.front())
      break;
    if (gap > before / 2 && round > 2) break;
    x = std::move(ritz.vectors);
    edge = {ritz.values.front(), ritz.values.back()};
  }
  ritz.vectors.values.resize(static_cast<std::size_t>(count * gram.rows));
  ritz.vectors.rows = count;
  return {orthonormal(ritz.vectors), gap / (scale * scale)};
}

}  // namespace comera::tt
