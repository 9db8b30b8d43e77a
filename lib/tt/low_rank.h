// The best matrix of every rank without knowledge of the inputs (Eckart and Young), from one factorisation.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/tt/chain.h"

namespace comera::tt {

// A space that was iterated may lose this share more than the best one (an estimate decides, worst_gap of low_rank.cpp
// is the limit).
constexpr double iterated_excess = 2e-3;

class LowRankCurve {
 public:
  // Where no more than a part of the ranks is asked for (`largest_rank`; 0: all) and it costs less, the space comes
  // from leading_space() of filter.h, in float; what it captures and loses is computed in double from the weight. Any
  // other weight, and one that float does not resolve, by the Gram matrix of its smaller side, and by a full SVD where
  // part of the spectrum lies below what a Gram matrix resolves.
  explicit LowRankCurve(const Matrix& weight, std::int64_t largest_rank = 0);

  std::int64_t largest_rank() const { return static_cast<std::int64_t>(losses_.size()) - 1; }
  const std::vector<double>& losses() const { return losses_; }  // [r] = ||W - pair(r)||², r = 0 .. largest_rank()
  double best_loss(std::int64_t rank) const;  // of any matrix of that rank; an estimate where the space was iterated
  Pair pair(std::int64_t rank) const;         // left [rows x r], right [r x columns]
  Pair left_orthonormal(std::int64_t rank) const;  // the same product

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
  double gap_ = 0;  // what the best space of largest_rank() directions would lose less
};

// losses() of every rank alone, the squared singular values beyond it.
std::vector<double> low_rank_losses(const Matrix& weight);

}  // namespace comera::tt
