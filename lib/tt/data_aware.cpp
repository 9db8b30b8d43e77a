#include "lib/tt/data_aware.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>

#include "lib/core/error.h"
#include "lib/core/terminal/stop.h"

namespace comera::tt {
namespace {

double mean_diagonal(const Matrix& moment) {
  return moment.rows > 0 ? trace(moment) / static_cast<double>(moment.rows) : 0;
}

// Wᵀ S W from `outputs` S W.
Matrix output_gram(const Matrix& weight, const Matrix& outputs) {
  check_finite(weight, "[tt] weight");
  check_finite(outputs, "[tt] products of the weight and the second moment of the inputs");
  Matrix g = multiply_tn(weight, outputs);
  symmetrize(g);
  return g;
}

// lᵀ W [in x out] for l lᵀ = S; its right singular vectors are the output directions.
Matrix image_of(const Matrix& weight, const KeptMatrix& moment) {
  const std::shared_ptr<const Matrix> inputs = moment.get();
  check_finite(weight, "[tt] weight");
  check_finite(*inputs, "[tt] second moment of the inputs");
  return multiply_tn(factor_of(*inputs), weight);
}

std::vector<double> tails_of(const std::vector<double>& values) {
  std::vector<double> losses(values.size() + 1);
  for (std::size_t r = values.size(); r-- > 0;) losses[r] = losses[r + 1] + std::max(0.0, values[r]);
  return losses;
}

// Solves corrected_target(). `missing` is X̂ᵀ (Y - X̂ W).
Matrix corrected(const Matrix& weight, const KeptMatrix& moment, Matrix missing, double damping) {
  solve_positive(shrunk(moment.copy(), 0, damping), missing);
  add(missing, weight);
  return missing;
}

Matrix missing_products(const Matrix& weight, const Followed& inputs) {
  Matrix missing = multiply(*inputs.moment.get(), weight);
  subtract_from(*inputs.products.get(), missing);
  return missing;
}

}  // namespace

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

double output_norm(const Matrix& weight, const KeptMatrix& moment) {
  return std::max(0.0, dot_of_product(weight, *moment.get(), weight));
}

double output_loss(const Matrix& weight, Matrix fitted, const KeptMatrix& moment) {
  subtract_from(weight, fitted);
  return output_norm(fitted, moment);
}

double output_error(const Matrix& weight, Matrix fitted, const KeptMatrix& moment) {
  subtract_from(weight, fitted);
  return output_share(weight, fitted, moment);
}

double output_share(const Matrix& weight, const Matrix& lost, const KeptMatrix& moment) {
  const double norm = output_norm(weight, moment), loss = output_norm(lost, moment);
  if (norm == 0) return loss == 0 ? 0 : std::numeric_limits<double>::infinity();
  return std::sqrt(loss / norm);
}

double followed_loss(const Matrix& fitted, const Followed& inputs) {
  return output_norm(fitted, inputs.moment) - 2 * dot(fitted, *inputs.products.get());
}

Matrix corrected_target(const Matrix& weight, const Followed& inputs, double damping) {
  return corrected(weight, inputs.moment, missing_products(weight, inputs), damping);
}

Matrix best_target(const Matrix& weight, const Followed& fit, const Followed& held) {
  constexpr double dampings[] = {1e-4, 1e-3, 1e-2, 1e-1};
  struct Best {
    Matrix target;
    double loss = 0;
    std::size_t index = 0;
  };
  const Matrix missing = missing_products(weight, fit);
  std::optional<Best> best;
  std::mutex mutex;
  // The first of the best ones stays, in whatever order they come.
  each_alone(std::ssize(dampings), fit.moment.rows * fit.moment.rows, [&](std::int64_t i) {
    check_stop();
    Best one{corrected(weight, fit.moment, missing, dampings[i]), 0, static_cast<std::size_t>(i)};
    one.loss = followed_loss(one.target, held);
    const std::lock_guard lock(mutex);
    if (!best || one.loss < best->loss || (one.loss == best->loss && one.index < best->index)) best = std::move(one);
  });
  if (best->loss >= followed_loss(weight, held)) return weight;
  return std::move(best->target);
}

WhitenedCurve::WhitenedCurve(const KeptMatrix& weight, const KeptMatrix& moment)
    : WhitenedCurve(weight, moment,
                    weight.columns <= weight.rows && moment.rows == weight.rows ? multiply(*moment.get(), *weight.get())
                                                                                : Matrix()) {}

WhitenedCurve::WhitenedCurve(KeptMatrix weight, const KeptMatrix& moment, Matrix outputs)
    : weight_(std::move(weight)), narrow_(weight_.columns <= weight_.rows) {
  COMERA_CHECK(moment.rows == weight_.rows && moment.columns == weight_.rows);
  const std::shared_ptr<const Matrix> all = weight_.get();
  if (narrow_) {
    outputs_ = std::move(outputs);
    SymmetricEigen eigen = symmetric_eigen(output_gram(*all, outputs_));
    losses_ = tails_of(eigen.values);
    basis_ = std::move(eigen.vectors);
    return;
  }
  const Matrix image = image_of(*all, moment);
  const SymmetricEigen eigen = symmetric_eigen(gram_of_rows(image));
  losses_ = tails_of(eigen.values);
  basis_ = multiply(eigen.vectors, image);
}

std::vector<double> whitened_losses(const KeptMatrix& weight, const KeptMatrix& moment, Matrix outputs) {
  if (std::min(weight.rows, weight.columns) <= 2048) return WhitenedCurve(weight, moment, std::move(outputs)).losses();
  const std::shared_ptr<const Matrix> all = weight.get();
  if (weight.columns > weight.rows) return tails_of(symmetric_eigenvalues(gram_of_rows(image_of(*all, moment))));
  Matrix gram = output_gram(*all, outputs);
  outputs = {};
  return tails_of(symmetric_eigenvalues(std::move(gram)));
}

Pair WhitenedCurve::pair(std::int64_t rank) const {
  COMERA_CHECK(rank >= 0 && rank <= largest_rank());
  Matrix directions = first_rows(basis_, rank);
  if (!narrow_) directions = transposed(orthonormal_columns(transposed(directions)));
  Matrix left = multiply_nt(*weight_.get(), directions);
  return {std::move(left), std::move(directions)};
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
