#include "lib/tt/low_rank.h"

#include <algorithm>
#include <cmath>

#include "lib/core/error.h"

namespace comera::tt {
namespace {

constexpr std::int64_t small_side = 512;   // below it the Gram matrix is as fast as any sketch
constexpr double gram_resolution = 1e-13;  // squared norms below this share of the whole are rounding in a Gram matrix
constexpr int most_iterations = 8;
constexpr double converged = 2e-3;  // growth of the captured norm in an iteration, relative to what is left
constexpr double too_slow = 2e-2;   // still growing so much at the end: the Gram matrix decides

std::vector<double> squared_row_norms(const Matrix& a) {
  std::vector<double> norms(static_cast<std::size_t>(a.rows));
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = 0; j < a.columns; ++j) norms[static_cast<std::size_t>(i)] += a(i, j) * a(i, j);
  return norms;
}

// losses[r] for r = 0 .. rank: the sum of the parts beyond r, and `beyond`.
std::vector<double> tails(const std::vector<double>& parts, std::int64_t rank, double beyond) {
  std::vector<double> losses(static_cast<std::size_t>(rank) + 1, beyond);
  double sum = beyond;
  for (std::size_t i = parts.size(); i-- > 0;) {
    sum += parts[i];
    if (i <= static_cast<std::size_t>(rank)) losses[i] = sum;
  }
  return losses;
}

// Numbers of mean 0 and variance 1/3, the same for a shape whenever and wherever they are drawn.
Matrix random_matrix(std::int64_t rows, std::int64_t columns) {
  Matrix a(rows, columns);
  std::uint64_t state = 0x9e3779b97f4a7c15ull;
  for (double& value : a.values) {
    std::uint64_t z = (state += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    value = static_cast<double>(static_cast<std::int64_t>(z ^ (z >> 31))) * 0x1p-63;
  }
  return a;
}

Matrix keep_rows(Matrix a, std::int64_t count) {
  a.values.resize(static_cast<std::size_t>(count * a.columns));
  a.rows = count;
  return a;
}

}  // namespace

LowRankCurve::LowRankCurve(const Matrix& weight, std::int64_t largest_rank) {
  const std::int64_t side = std::min(weight.rows, weight.columns);
  const std::int64_t rank = largest_rank == 0 ? side : std::min(largest_rank, side);
  left_basis_ = weight.rows <= weight.columns;
  if (side > small_side && 2 * rank < side && try_randomised(weight, rank)) return;
  by_gram(weight, rank);
  const double norm = losses_[0];
  const bool below_resolution = std::any_of(losses_.begin(), losses_.end(), [&](double loss) { return loss > 0 && loss < gram_resolution * norm; });
  if (below_resolution) by_svd(weight, rank);
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

void LowRankCurve::by_gram(const Matrix& weight, std::int64_t rank) {
  const SymmetricEigen eigen = symmetric_eigen(left_basis_ ? gram_of_rows(weight) : gram(weight));
  // All of the smaller side is projected, so that the parts add up without cancellation.
  const Matrix projected = left_basis_ ? multiply(eigen.vectors, weight) : multiply_nt(eigen.vectors, weight);
  losses_ = tails(squared_row_norms(projected), rank, 0);
  const Matrix basis = first_rows(eigen.vectors, rank), image = first_rows(projected, rank);
  left_ = transposed(left_basis_ ? basis : image);
  right_ = left_basis_ ? image : basis;
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

bool LowRankCurve::try_randomised(const Matrix& weight, std::int64_t rank) {
  const std::int64_t side = std::min(weight.rows, weight.columns), width = std::min(side, rank + std::max<std::int64_t>(16, rank / 8));
  const auto to_small = [&](const Matrix& x) { return left_basis_ ? multiply(weight, x) : multiply_tn(weight, x); };
  const auto to_large = [&](const Matrix& x) { return left_basis_ ? multiply_tn(weight, x) : multiply(weight, x); };
  const double norm = squared_norm(weight);
  Matrix basis = orthonormal_columns(to_small(random_matrix(std::max(weight.rows, weight.columns), width)));  // [side x width]
  Matrix image = to_large(basis);                                                                             // [large x width]
  double captured = squared_norm(image), growth = captured;
  for (int i = 0; i < most_iterations && growth > converged * (norm - captured); ++i) {
    basis = orthonormal_columns(to_small(image));
    image = to_large(basis);
    const double now = squared_norm(image);
    growth = now - captured;
    captured = now;
  }
  if (growth > too_slow * (norm - captured)) return false;
  const SymmetricEigen turn = symmetric_eigen(gram(image));
  const Matrix turned = multiply_nt(turn.vectors, image);  // [width x large]
  losses_ = tails(squared_row_norms(turned), rank, std::max(0.0, norm - captured));
  const Matrix turned_basis = multiply_nt(first_rows(turn.vectors, rank), basis);  // [rank x side]
  left_ = transposed(left_basis_ ? turned_basis : first_rows(turned, rank));
  right_ = left_basis_ ? first_rows(turned, rank) : turned_basis;
  return true;
}

}  // namespace comera::tt
