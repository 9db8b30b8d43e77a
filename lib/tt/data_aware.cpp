#include "lib/tt/data_aware.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "lib/core/error.h"
#include "lib/core/terminal/stop.h"

namespace comera::tt {
namespace {

double mean_diagonal(const Matrix& moment) {
  return moment.rows > 0 ? trace(moment) / static_cast<double>(moment.rows) : 0;
}

// l with l lᵀ = S, by Cholesky, or from eigenvalues if S is not definite.
Matrix factor_of(const Matrix& moment) {
  Matrix l = moment;
  if (cholesky(l)) return l;
  SymmetricEigen eigen = symmetric_eigen(moment);
  for (std::int64_t i = 0; i < eigen.vectors.rows; ++i) {
    const double scale = std::sqrt(std::max(0.0, eigen.values[static_cast<std::size_t>(i)]));
    for (std::int64_t j = 0; j < eigen.vectors.columns; ++j) eigen.vectors(i, j) *= scale;
  }
  return transposed(eigen.vectors);
}

std::vector<double> tails_of(const std::vector<double>& values) {
  std::vector<double> losses(values.size() + 1);
  for (std::size_t r = values.size(); r-- > 0;) losses[r] = losses[r + 1] + std::max(0.0, values[r]);
  return losses;
}

// Solves corrected_target(). `missing` is X̂ᵀ (Y - X̂ W).
Matrix corrected(const Matrix& weight, const Matrix& moment, Matrix missing, double damping) {
  solve_positive(shrunk(moment, 0, damping), missing);
  add(missing, weight);
  return missing;
}

Matrix missing_products(const Matrix& weight, const Followed& inputs) {
  return difference(inputs.products, multiply(inputs.moment, weight));
}

}  // namespace

Matrix shrunk(Matrix moment, double rho, double damping) {
  const double shift = damping * mean_diagonal(moment);
  for (std::int64_t i = 0; i < moment.rows; ++i) {
    const double square = moment(i, i);
    if (rho != 0)
      for (std::int64_t j = 0; j < moment.columns; ++j) moment(i, j) *= 1 - rho;
    moment(i, i) = square + shift;
  }
  return moment;
}

double output_norm(const Matrix& weight, const Matrix& moment) {
  return std::max(0.0, dot(weight, multiply(moment, weight)));
}

double output_loss(const Matrix& weight, const Matrix& fitted, const Matrix& moment) {
  return output_norm(difference(weight, fitted), moment);
}

double output_error(const Matrix& weight, const Matrix& fitted, const Matrix& moment) {
  const double norm = output_norm(weight, moment), loss = output_loss(weight, fitted, moment);
  if (norm == 0) return loss == 0 ? 0 : std::numeric_limits<double>::infinity();
  return std::sqrt(loss / norm);
}

double followed_loss(const Matrix& fitted, const Followed& inputs) {
  return output_norm(fitted, inputs.moment) - 2 * dot(fitted, inputs.products);
}

Matrix corrected_target(const Matrix& weight, const Followed& inputs, double damping) {
  return corrected(weight, inputs.moment, missing_products(weight, inputs), damping);
}

Matrix best_target(const Matrix& weight, const Followed& fit, const Followed& held) {
  constexpr double dampings[] = {1e-4, 1e-3, 1e-2, 1e-1};
  struct Tried {
    Matrix target;
    double loss = 0;
  };
  const Matrix missing = missing_products(weight, fit);
  std::vector<Tried> tried(std::size(dampings));
  each_alone(std::ssize(tried), [&](std::int64_t i) {
    check_stop();
    Tried& one = tried[static_cast<std::size_t>(i)];
    one.target = corrected(weight, fit.moment, missing, dampings[i]);
    one.loss = followed_loss(one.target, held);
  });
  const auto best =
      std::min_element(tried.begin(), tried.end(), [](const Tried& a, const Tried& b) { return a.loss < b.loss; });
  if (best->loss >= followed_loss(weight, held)) return weight;
  return std::move(best->target);
}

WhitenedCurve::WhitenedCurve(const Matrix& weight, const Matrix& moment)
    : WhitenedCurve(weight, moment,
                    weight.columns <= weight.rows && moment.rows == weight.rows ? multiply(moment, weight) : Matrix()) {
}

WhitenedCurve::WhitenedCurve(const Matrix& weight, const Matrix& moment, Matrix outputs)
    : weight_(weight), narrow_(weight.columns <= weight.rows) {
  COMERA_CHECK(moment.rows == weight.rows && moment.columns == weight.rows);
  check_finite(weight, "[tt] weight");
  check_finite(moment, "[tt] second moment of the inputs");
  if (narrow_) {
    outputs_ = std::move(outputs);
    Matrix g = multiply_tn(weight, outputs_);
    symmetrize(g);
    SymmetricEigen eigen = symmetric_eigen(std::move(g));
    losses_ = tails_of(eigen.values);
    basis_ = std::move(eigen.vectors);
    return;
  }
  // lᵀ W [in x out]; its right singular vectors are the output directions
  const Matrix image = multiply_tn(factor_of(moment), weight);
  const SymmetricEigen eigen = symmetric_eigen(gram_of_rows(image));
  losses_ = tails_of(eigen.values);
  basis_ = multiply(eigen.vectors, image);
}

Pair WhitenedCurve::pair(std::int64_t rank) const {
  COMERA_CHECK(rank >= 0 && rank <= largest_rank());
  Matrix directions = first_rows(basis_, rank);
  if (!narrow_) directions = transposed(orthonormal_columns(transposed(directions)));
  return {multiply_nt(weight_, directions), std::move(directions)};
}

std::vector<std::int32_t> order_by_energy(const Matrix& weight, const Matrix& moment) {
  std::vector<double> energy(static_cast<std::size_t>(weight.rows));
  for (std::int64_t i = 0; i < weight.rows; ++i)
    energy[static_cast<std::size_t>(i)] =
        moment(i, i) * std::inner_product(weight.row(i), weight.row(i) + weight.columns, weight.row(i), 0.0);
  std::vector<std::int32_t> order(energy.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return energy[static_cast<std::size_t>(a)] > energy[static_cast<std::size_t>(b)];
  });
  return order;
}

}  // namespace comera::tt
