// The subspace of GaLore (Zhao et al. 2024, arXiv 2403.03507): the first `rank` singular vectors of a gradient on its
// smaller side.
//
// They come from a block power iteration (Halko, Martinsson and Tropp 2011, arXiv 0909.4061, algorithm 4.4) with
// `width` >= rank random vectors and `iterations` products with G G^T, each followed by a Gram-Schmidt step, and from
// the eigenvectors of the small matrix (Q G)(Q G)^T, in double (Jacobi's method). With singular values s_1 >= s_2 ...
// the tangent of the angle between the vectors and the subspace of the first k is at most (s_(k+1) / s_k)^(2
// iterations) of that of the random start. Where width is the smaller side, the start is the whole space and the
// vectors are exact.
#pragma once

#include <cmath>

#include "kernels/sketch.h"

namespace comera::kernels {

// Writes the basis of a new subspace if *epoch is not that of the step, 1 + step / refresh, and the step is finite;
// then *epoch is. An epoch of 0 stands for no basis. Rows of the basis are orthonormal. Each has the sign that turns it
// least from the same row of the old basis, because the moments stay. Directions in which the gradient is zero are
// random.
struct GaloreBasis {
  static constexpr int iterations = 4;

  std::int64_t rows = 0, columns = 0, rank = 0;  // rank <= small()
  std::int64_t refresh = 1;                      // T
  std::uint32_t site = 0;                        // of the random start
  const StepScalars* scalars = nullptr;
  const void* gradient = nullptr;  // [rows, columns]; it and the basis are of the parameters' type
  void* basis = nullptr;           // [rank, small()]
  double* epoch = nullptr;

  COMERA_HD bool projects_rows() const { return rows <= columns; }
  COMERA_HD std::int64_t small() const { return projects_rows() ? rows : columns; }
  COMERA_HD std::int64_t large() const { return projects_rows() ? columns : rows; }
  COMERA_HD std::int64_t width() const {
    const std::int64_t wanted = rank + rank / 4 + 8;
    return wanted < small() ? wanted : small();
  }
  COMERA_HD double epoch_of_step() const {
    const std::uint64_t epoch = scalars->step / static_cast<std::uint64_t>(refresh);
    return 1 + static_cast<double>(epoch);
  }
  COMERA_HD bool due() const { return scalars->finite != 0 && *epoch != epoch_of_step(); }
};

// Of the products with the gradient, spread over the steps between two bases.
constexpr double flops(const GaloreBasis& a) {
  const std::int64_t vectors = a.rank + a.rank / 4 + 8;
  const auto products = static_cast<double>((2 * GaloreBasis::iterations + 1) * vectors);
  return 2 * products * static_cast<double>(a.rows * a.columns) / static_cast<double>(a.refresh);
}

COMERA_HD inline SketchRule rule_of(const GaloreBasis& a) {
  DrawSketch draw;
  draw.sketch.inputs = a.small(), draw.sketch.rank = a.width();
  draw.sketch.refresh = a.refresh, draw.sketch.site = a.site;
  draw.scalars = a.scalars;
  return SketchRule(draw);
}
// Entry of the random vector of that number. Vectors from width() on replace those that become zero.
COMERA_HD inline float start_entry(const SketchRule& rule, std::int64_t vector, std::int64_t entry) {
  float four[4];
  rule.four(entry, vector / 4, four);
  return four[vector % 4];
}

// A vector that keeps less than this part of its norm after the Gram-Schmidt step depends on those before it.
constexpr double dependent = 1e-5;

// Jacobi's method on a symmetric matrix [size, size]: rounds of rotations of disjoint pairs of rows, and of the same
// columns. A sweep of rounds meets every pair once. All rotations of a round are computed from the matrix before it.
constexpr int largest_sweeps = 15;
COMERA_HD constexpr std::int64_t rounds_of(std::int64_t size) { return size + size % 2 - 1; }
COMERA_HD constexpr std::int64_t pairs_of(std::int64_t size) { return (size + size % 2) / 2; }

struct Rotation {
  double c = 1, s = 0;
  std::int64_t first = 0, second = 0;  // first == second: none
};

// The pair of that number in a round: a tournament in which the last player stays in its place.
COMERA_HD inline Rotation pair_of_round(std::int64_t size, std::int64_t round, std::int64_t pair) {
  const std::int64_t others = rounds_of(size);
  const std::int64_t a = pair == 0 ? others : (round + pair) % others, b = (round + others - pair) % others;
  Rotation r;
  r.first = a < b ? a : b, r.second = a < b ? b : a;
  if (r.second >= size) r.second = r.first;
  return r;
}

// The rotation that makes the entry of the pair zero; none if it is below rounding, relative to its diagonal entries or
// to the trace.
COMERA_HD inline Rotation rotation_of(const double* matrix, std::int64_t size, double trace, Rotation r) {
  const double p = matrix[r.first * size + r.first], q = matrix[r.second * size + r.second],
               between = matrix[r.first * size + r.second];
  if (between * between <= 1e-32 * p * q || fabs(between) <= 1e-18 * trace) r.second = r.first;
  if (r.second == r.first) return r;
  const double slope = (q - p) / (2 * between), t = (slope < 0 ? -1 : 1) / (fabs(slope) + sqrt(fma(slope, slope, 1.0)));
  r.c = 1 / sqrt(fma(t, t, 1.0)), r.s = t * r.c;
  return r;
}

COMERA_HD inline void rotate(const Rotation& r, double* first, double* second) {
  const double x = *first, y = *second;
  *first = fma(r.c, x, -r.s * y);
  *second = fma(r.s, x, r.c * y);
}

// The place of an eigenvalue among the diagonal entries, the largest first.
COMERA_HD inline std::int64_t place_of(const double* matrix, std::int64_t size, std::int64_t index) {
  const double mine = matrix[index * size + index];
  std::int64_t place = 0;
  for (std::int64_t i = 0; i < size; ++i) {
    const double other = matrix[i * size + i];
    place += other > mine || (other == mine && i < index);
  }
  return place;
}

}  // namespace comera::kernels
