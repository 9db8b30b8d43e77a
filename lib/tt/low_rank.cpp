#include "lib/tt/low_rank.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lib/core/error.h"

namespace comera::tt {
namespace {

constexpr std::int64_t small_side = 512;   // below it the Gram matrix is as fast as any sketch
constexpr double gram_resolution = 1e-13;  // squared norms below this share of the whole are rounding in a Gram matrix
constexpr double converged = 1e-2;         // growth of the captured norm over two blocks, relative to what is left; it halves with every block

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

double sum_of_first(const std::vector<double>& values, std::int64_t count) {
  return std::accumulate(values.begin(), values.begin() + std::min<std::ptrdiff_t>(count, std::ssize(values)), 0.0);
}

Matrix orthonormal_rows(const Matrix& a) { return transposed(orthonormal_columns(transposed(a))); }

// An orthonormal basis of [X, X A Aᵀ, X (A Aᵀ)², ...] as rows, A [side x other] the weight or its transpose, X random rows of its range; and
// its image, basis A. A block more costs two products, like an iteration of subspace iteration, but nothing found before is given up.
class Krylov {
 public:
  Krylov(const Matrix& weight, bool rows_are_side, std::int64_t block)
      : weight_(weight),
        rows_are_side_(rows_are_side),
        block_(block),
        basis_(0, std::min(weight.rows, weight.columns)),
        image_(0, std::max(weight.rows, weight.columns)) {}

  const Matrix& basis() const { return basis_; }
  const Matrix& image() const { return image_; }
  std::int64_t size() const { return basis_.rows; }
  std::int64_t side() const { return basis_.columns; }
  std::int64_t block() const { return block_; }
  std::int64_t blocks() const { return size() / block_; }

  void extend() {
    const Matrix from = size() == 0 ? random_matrix(block_, image_.columns) : last_image();
    Matrix rows = rows_are_side_ ? multiply_nt(from, weight_) : multiply(from, weight_);
    // Once takes away what is in the basis. Where hardly more than rounding is left (low rank), normalising it brings some of that back; the
    // second time takes away most of this and the third the rest, without which the loss of orthogonality grows from block to block.
    for (int pass = 0; pass < 3; ++pass) rows = orthonormal_rows(difference(rows, multiply(multiply_nt(rows, basis_), basis_)));
    append(image_, rows_are_side_ ? multiply(rows, weight_) : multiply_nt(rows, weight_));
    append(basis_, rows);
  }

 private:
  Matrix last_image() const {
    return Matrix(block_, image_.columns, std::vector<double>(image_.row(size() - block_), image_.row(size() - block_) + block_ * image_.columns));
  }
  static void append(Matrix& a, const Matrix& rows) {
    a.values.insert(a.values.end(), rows.values.begin(), rows.values.end());
    a.rows += rows.rows;
  }

  const Matrix& weight_;
  bool rows_are_side_;
  std::int64_t block_;
  Matrix basis_, image_;
};

}  // namespace

LowRankCurve::LowRankCurve(const Matrix& weight, std::int64_t largest_rank) {
  const std::int64_t side = std::min(weight.rows, weight.columns);
  const std::int64_t rank = largest_rank == 0 ? side : std::min(largest_rank, side);
  left_basis_ = weight.rows <= weight.columns;
  if (side > small_side && 3 * rank <= side && try_krylov(weight, rank)) return;
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

bool LowRankCurve::try_krylov(const Matrix& weight, std::int64_t rank) {
  const double norm = squared_norm(weight);
  Krylov space(weight, left_basis_, std::max<std::int64_t>(16, rank / 4));
  double before = 0;
  for (;;) {
    if (space.size() + space.block() > space.side() * 4 / 5) return false;
    space.extend();
    if (space.size() < 2 * rank || space.blocks() % 2 != 0) continue;
    const double now = sum_of_first(symmetric_eigenvalues(gram_of_rows(space.image())), rank);
    if (norm - now <= gram_resolution * norm || (before > 0 && now - before <= converged * (norm - now))) break;
    before = now;
  }
  const SymmetricEigen turn = symmetric_eigen(gram_of_rows(space.image()));
  const Matrix kept = first_rows(turn.vectors, rank);
  Matrix basis = multiply(kept, space.basis()), image = multiply(kept, space.image());
  const std::vector<double> parts = squared_row_norms(image);
  losses_ = tails(parts, rank, std::max(0.0, norm - sum_of_first(parts, rank)));
  left_ = transposed(left_basis_ ? basis : image);
  right_ = left_basis_ ? std::move(image) : std::move(basis);
  return true;
}

}  // namespace comera::tt
