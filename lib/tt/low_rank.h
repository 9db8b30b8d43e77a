// The best matrix of every rank for the plain norm of the weight (Eckart and Young), from one factorisation.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/tt/chain.h"

namespace comera::tt {

// The excess loss of an iterated space over the best one, as a share, at which the iteration ends. It uses an estimate
// of this loss. The hard limit is worst_gap of low_rank.cpp.
constexpr double iterated_excess = 2e-3;

class LowRankCurve {
 public:
  // If only a part of the ranks is needed (`largest_rank`; 0: all) and it costs less, the space comes from
  // leading_space() of filter.h, in float. Its captured and lost parts are computed in double from the weight. Any
  // other weight, and one that float does not resolve, uses the Gram matrix of its smaller side. A full SVD is used if
  // part of the spectrum lies below the resolution of a Gram matrix.
  explicit LowRankCurve(const Matrix& weight, std::int64_t largest_rank = 0);

  std::int64_t largest_rank() const { return static_cast<std::int64_t>(losses_.size()) - 1; }
  const std::vector<double>& losses() const { return losses_; }  // [r] = ||W - pair(r)||², r = 0 .. largest_rank()
  // Smallest loss of any matrix of that rank; an estimate if the space was iterated.
  double best_loss(std::int64_t rank) const;
  Pair pair(std::int64_t rank) const;              // left [rows x r], right [r x columns]
  Pair left_orthonormal(std::int64_t rank) const;  // the same product, with an orthonormal left factor

 private:
  bool try_filter(const Matrix& weight, std::int64_t rank);
  bool refine(const Matrix& weight, Matrix basis);
  Matrix image_of(const Matrix& basis, const Matrix& weight) const;
  void keep(Matrix basis, Matrix image);
  void by_gram(const Matrix& weight, std::int64_t rank);
  void by_svd(const Matrix& weight, std::int64_t rank);

  bool left_basis_ = true;  // the orthonormal factor is the left one
  Matrix left_, right_;
  std::vector<double> losses_;
  double gap_ = 0;  // how much less the best space of largest_rank() directions would lose
};

// Only losses(), for every rank: the sum of the squared singular values beyond it.
std::vector<double> low_rank_losses(const Matrix& weight);

}  // namespace comera::tt
