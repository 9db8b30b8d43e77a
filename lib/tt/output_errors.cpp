#include "lib/tt/output_errors.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "lib/core/error.h"
#include "lib/tt/data_aware.h"

namespace comera::tt {
namespace {

constexpr double unit = std::numeric_limits<double>::epsilon() / 2;  // u, of rounding to the nearest
constexpr std::int64_t strip = 128;

double frobenius(const Matrix& a) { return std::sqrt(squared_norm(a)); }

void scale(Matrix& a, double factor) {
  for (double& value : a.values) value *= factor;
}

Matrix rows_of(const Matrix& a, std::int64_t first, std::int64_t count) {
  return Matrix(count, a.columns, {a.row(first), a.row(first) + count * a.columns});
}

Matrix columns_of(const Matrix& a, std::int64_t first, std::int64_t count) {
  Matrix part(a.rows, count);
  for (std::int64_t i = 0; i < a.rows; ++i) std::copy_n(a.row(i) + first, count, part.row(i));
  return part;
}

// lostᵀ S lost [out x out], a strip of S lost at a time.
Matrix gram_under(const Matrix& lost, const Matrix& moment) {
  Matrix sum(lost.columns, lost.columns);
  for (std::int64_t first = 0; first < lost.rows; first += strip) {
    const std::int64_t count = std::min(strip, lost.rows - first);
    add(sum, multiply_tn(rows_of(lost, first, count), multiply(rows_of(moment, first, count), lost)));
  }
  symmetrize(sum);
  return sum;
}

// lᵀ products l for l lᵀ = S.
Matrix seen_by(const Matrix& products, const Matrix& moment) {
  const Matrix root = factor_of(moment);
  Matrix seen = multiply_tn(root, multiply(products, root));
  symmetrize(seen);
  return seen;
}

// `gram`: of the lost outputs, on one of its sides. Its rounding, through products of at most `terms` terms with S and
// its factor, is at most 4 terms u tr(S) ||lost||²: a row of the factor has the norm sqrt(S_ii).
OutputErrors errors_from(double norm, double loss, Matrix gram, double terms, double trace_of_moment, double lost) {
  const double allowance = 4 * terms * unit * trace_of_moment * lost;
  const double largest = largest_eigenvalue_bound(std::move(gram)) + allowance;
  const auto relative = [&](double square) {
    return norm > 0     ? std::sqrt(std::max(square, 0.0) / norm)
           : square > 0 ? std::numeric_limits<double>::infinity()
                        : 0;
  };
  return {relative(loss), relative(largest)};
}

}  // namespace

double largest_eigenvalue_bound(Matrix a) {
  COMERA_CHECK(a.rows == a.columns);
  constexpr int squarings = 3;
  const double rounding = 2 * (static_cast<double>(a.rows) + 8) * unit;  // of the square of a matrix of norm 1
  const double first = frobenius(a);
  if (!(first > 0)) return first;  // also not a number
  std::vector<double> norms;
  scale(a, 1 / first);
  for (int i = 0; i < squarings; ++i) {
    a = gram(a);
    norms.push_back(frobenius(a));
    scale(a, 1 / norms.back());
  }
  double bound = 1;  // of a matrix of norm 1
  for (; !norms.empty(); norms.pop_back()) bound = std::sqrt(norms.back() * bound + rounding);
  return first * bound * (1 + rounding);
}

void LostOutputs::add(const Matrix& lost) {
  COMERA_CHECK(lost.rows == products_.rows);
  tt::add(products_, gram_of_rows(lost));
  outputs_ += lost.columns;
}

OutputErrors LostOutputs::relative_to(double norm, const KeptMatrix& moment) const {
  const double loss = dot(*moment.get(), products_), whole = trace(*moment.get());
  const auto terms = static_cast<double>(products_.rows + outputs_ + 2);
  return errors_from(norm, loss, seen_by(products_, *moment.get()), terms, whole, trace(products_));
}

OutputErrors errors_of_outputs(const Matrix& weight, const Matrix& lost, const KeptMatrix& moment) {
  const double norm = output_norm(weight, moment);
  if (lost.rows >= lost.columns) {
    const std::shared_ptr<const Matrix> inputs = moment.get();
    Matrix gram = gram_under(lost, *inputs);
    const double loss = trace(gram);
    const auto terms = static_cast<double>(lost.rows + lost.columns + 2);
    return errors_from(norm, loss, std::move(gram), terms, trace(*inputs), squared_norm(lost));
  }
  LostOutputs parts(lost.rows);
  for (std::int64_t first = 0; first < lost.columns; first += strip)
    parts.add(columns_of(lost, first, std::min(strip, lost.columns - first)));
  return parts.relative_to(norm, moment);
}

}  // namespace comera::tt
