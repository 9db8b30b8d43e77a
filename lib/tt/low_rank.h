// The best matrix of every rank without knowledge of the inputs (Eckart and Young), from one factorisation.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/tt/chain.h"

namespace comera::tt {

class LowRankCurve {
 public:
  // A large matrix of which no more than `largest_rank` (0: all) is asked for is factorised within a randomised block Krylov space (Musco and Musco
  // 2015) that grows until the norm captured by that rank, which is computed exactly, hardly grows: on flat spectra a quarter of the products of
  // subspace iteration. Any other, and one where this does not come to rest, by the Gram matrix of its smaller side, and by a full SVD where part
  // of the spectrum lies below what a Gram matrix resolves.
  explicit LowRankCurve(const Matrix& weight, std::int64_t largest_rank = 0);

  std::int64_t largest_rank() const { return static_cast<std::int64_t>(losses_.size()) - 1; }
  const std::vector<double>& losses() const { return losses_; }  // [r] = ||W - pair(r)||², r = 0 .. largest_rank()
  Pair pair(std::int64_t rank) const;                            // left [rows x r], right [r x columns]
  Pair left_orthonormal(std::int64_t rank) const;                // the same product

 private:
  bool try_krylov(const Matrix& weight, std::int64_t rank);
  void by_gram(const Matrix& weight, std::int64_t rank);
  void by_svd(const Matrix& weight, std::int64_t rank);

  bool left_basis_ = true;  // the orthonormal factor is the left one
  Matrix left_, right_;
  std::vector<double> losses_;
};

}  // namespace comera::tt
