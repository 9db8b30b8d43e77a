#include "lib/tt/low_rank.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lib/core/error.h"
#include "lib/tt/filter.h"

namespace comera::tt {
namespace {

constexpr std::int64_t small_side = 512;   // below it, the Gram matrix is as fast as any iteration on a subspace
constexpr double gram_resolution = 1e-13;  // smaller shares of the squared norm are rounding errors of a Gram matrix
// The same for a Gram matrix in float, with a margin for many directions.
constexpr double float_resolution = 1e-5;
constexpr double worst_gap = 5e-3;  // with a larger gap, the whole spectrum is computed
constexpr int most_refinements = 3;

std::vector<double> squared_row_norms(const Matrix& a) {
  std::vector<double> norms(static_cast<std::size_t>(a.rows));
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = 0; j < a.columns; ++j) norms[static_cast<std::size_t>(i)] += a(i, j) * a(i, j);
  return norms;
}

// losses[r] for r = 0 .. rank: the sum of the parts beyond r, plus `beyond`.
std::vector<double> tails(const std::vector<double>& parts, std::int64_t rank, double beyond) {
  std::vector<double> losses(static_cast<std::size_t>(rank) + 1, beyond);
  double sum = beyond;
  for (std::size_t i = parts.size(); i-- > 0;) {
    sum += parts[i];
    if (i <= static_cast<std::size_t>(rank)) losses[i] = sum;
  }
  return losses;
}

Matrix keep_rows(Matrix a, std::int64_t count) {
  a.values.resize(static_cast<std::size_t>(count * a.columns));
  a.rows = count;
  return a;
}

double sum_of(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

Matrix orthonormal_rows(const Matrix& a) { return transposed(orthonormal_columns(transposed(a))); }

// Compares processor time in units of double-precision products, fitted to one machine. An eigenproblem of size n costs
// ten products of n x n; float costs half.
bool filter_is_faster(double side, double other, double rank) {
  const auto columns =
      static_cast<double>(filtered_columns(static_cast<std::int64_t>(side), static_cast<std::int64_t>(rank)));
  const double full = side * side * other + 10 * side * side * side;
  const double steps = 9 * side * side * columns,
               turns = 1.5 * (10 * columns * columns * columns + 7 * side * columns * columns);
  return 0.5 * side * side * other + steps + turns < full;
}

}  // namespace

LowRankCurve::LowRankCurve(const Matrix& weight, std::int64_t largest_rank) {
  const std::int64_t side = std::min(weight.rows, weight.columns), other = std::max(weight.rows, weight.columns);
  const std::int64_t rank = largest_rank == 0 ? side : std::min(largest_rank, side);
  left_basis_ = weight.rows <= weight.columns;
  const bool filtered = side > small_side && filter_is_faster(static_cast<double>(side), static_cast<double>(other),
                                                              static_cast<double>(rank));
  if (filtered && try_filter(weight, rank)) return;
  by_gram(weight, rank);
  const double norm = losses_[0];
  const bool below_resolution = std::any_of(losses_.begin(), losses_.end(),
                                            [&](double loss) { return loss > 0 && loss < gram_resolution * norm; });
  if (below_resolution) by_svd(weight, rank);
}

double LowRankCurve::best_loss(std::int64_t rank) const {
  return std::max(0.0, losses_[static_cast<std::size_t>(rank)] - gap_);
}

Pair LowRankCurve::pair(std::int64_t rank) const {
  COMERA_CHECK(rank >= 0 && rank <= largest_rank());
  return {first_columns(left_, rank), first_rows(right_, rank)};
}

Pair LowRankCurve::left_orthonormal(std::int64_t rank) const {
  Pair cut = pair(rank);
  if (left_basis_) return cut;
  Qr factors = qr(cut.left);
  return {std::move(factors.q), multiply(factors.r, cut.right)};
}

Matrix LowRankCurve::image_of(const Matrix& basis, const Matrix& weight) const {
  return left_basis_ ? multiply(basis, weight) : multiply_nt(basis, weight);
}

void LowRankCurve::keep(Matrix basis, Matrix image) {
  left_ = transposed(left_basis_ ? basis : image);
  right_ = left_basis_ ? std::move(image) : std::move(basis);
}

void LowRankCurve::by_gram(const Matrix& weight, std::int64_t rank) {
  SymmetricEigen eigen = symmetric_eigen(left_basis_ ? gram_of_rows(weight) : gram(weight));
  const double norm = squared_norm(weight),
               beyond = std::accumulate(eigen.values.begin() + rank, eigen.values.end(), 0.0);
  // A large enough remainder is computed as the norm minus the kept parts. A small one would be inexact, so all
  // directions of the smaller side are projected and their parts are added.
  const bool by_difference = beyond > 1e-6 * norm;
  Matrix basis = by_difference ? keep_rows(std::move(eigen.vectors), rank) : std::move(eigen.vectors);
  Matrix image = image_of(basis, weight);
  const std::vector<double> parts = squared_row_norms(image);
  losses_ = tails(parts, rank, by_difference ? norm - sum_of(parts) : 0);
  gap_ = 0;
  keep(keep_rows(std::move(basis), rank), keep_rows(std::move(image), rank));
}

void LowRankCurve::by_svd(const Matrix& weight, std::int64_t rank) {
  Svd s = svd(weight);
  std::vector<double> parts;
  for (const double value : s.values) parts.push_back(value * value);
  losses_ = tails(parts, rank, 0);
  left_ = first_columns(s.left, rank);
  right_ = keep_rows(std::move(s.right), rank);
  for (std::int64_t i = 0; i < rank; ++i)
    for (std::int64_t j = 0; j < right_.columns; ++j) right_(i, j) *= s.values[static_cast<std::size_t>(i)];
  left_basis_ = true;
}

bool LowRankCurve::try_filter(const Matrix& weight, std::int64_t rank) {
  LeadingSpace space = leading_space(weight, left_basis_, rank, iterated_excess);
  const double norm = squared_norm(weight);
  Matrix image = image_of(space.basis, weight);
  const std::vector<double> parts = squared_row_norms(image);
  const double left = std::max(0.0, norm - sum_of(parts));
  if (left < float_resolution * norm) return refine(weight, std::move(space.basis));
  if (space.gap > worst_gap * left) return false;
  losses_ = tails(parts, rank, left);
  gap_ = space.gap;
  keep(std::move(space.basis), std::move(image));
  return true;
}

// Iterates on the weight itself in double. This resolves shares of the squared norm down to the square of what its Gram
// matrix resolves. For weights of low rank.
bool LowRankCurve::refine(const Matrix& weight, Matrix basis) {
  const double norm = squared_norm(weight);
  Matrix image = image_of(basis, weight);
  for (int step = 0; step < most_refinements; ++step) {
    basis = orthonormal_rows(left_basis_ ? multiply_nt(image, weight) : multiply(image, weight));
    image = image_of(basis, weight);
    const SymmetricEigen turn = symmetric_eigen(gram_of_rows(image));
    basis = multiply(turn.vectors, basis);
    image = multiply(turn.vectors, image);
    const std::vector<double> parts = squared_row_norms(image);
    const double left = std::max(0.0, norm - sum_of(parts));
    if (left > gram_resolution * norm) continue;
    losses_ = tails(parts, basis.rows, left);
    gap_ = 0;
    keep(std::move(basis), std::move(image));
    return true;
  }
  return false;
}

std::vector<double> low_rank_losses(const Matrix& weight) {
  const std::vector<double> values =
      symmetric_eigenvalues(weight.rows <= weight.columns ? gram_of_rows(weight) : gram(weight));
  std::vector<double> parts;
  for (const double value : values) parts.push_back(std::max(value, 0.0));
  return tails(parts, std::ssize(parts), 0);
}

}  // namespace comera::tt
