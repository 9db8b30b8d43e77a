// Errors of a layer's outputs y = x W when lost = W - Ŵ is missing from W: over all outputs, and in the worst
// direction.
#pragma once

#include <cstdint>

#include "lib/tt/kept_matrix.h"

namespace comera::tt {

// Both are relative to the norm of the outputs over all inputs, ||X W|| = sqrt(tr(Wᵀ S W)) for the moment S = Xᵀ X.
struct OutputErrors {
  double share = 0;  // ||X (W - Ŵ)|| / ||X W||, as tt::output_error()
  // At least ||X (W - Ŵ) u|| / ||X W|| for every unit vector u of outputs: an upper bound of the largest singular value
  // of lᵀ (W - Ŵ) for l lᵀ = S, over ||X W||. At most n^(1/32) times the true value, for n = min(in, out), beside the
  // allowance for rounding: 1.2 for 384, 1.3 for 4,096. S is taken as it is: where it was summed in float, values below
  // about 1e-3 are its rounding.
  double direction = 0;
};

// At least the largest eigenvalue of a symmetric positive semidefinite a [n x n], and at most n^(1/16) times it. Norms
// of powers: lambda(a)^m <= ||a^m||_F, by three squarings (m = 8); Horn and Johnson, Matrix Analysis, 5.6. What
// rounding takes away is added: a product of n terms errs by n u at most, u = 2^-53 (Higham, Accuracy and Stability of
// Numerical Algorithms, 3.5).
double largest_eigenvalue_bound(Matrix a);

// `weight` and `lost` [in x out], `moment` S [in x in] of any scale. Beside S and these, memory holds a few matrices of
// min(in, out)² numbers and strips. Infinite where outputs are lost and `weight` gives none.
OutputErrors errors_of_outputs(const Matrix& weight, const Matrix& lost, const KeptMatrix& moment);

// The same for a layer whose outputs come in parts. Time and memory are those of matrices [in x in].
class LostOutputs {
 public:
  explicit LostOutputs(std::int64_t in) : products_(in, in) {}
  void add(const Matrix& lost);  // [in x outputs of the part]
  // `norm`: output_norm() of the whole weight.
  OutputErrors relative_to(double norm, const KeptMatrix& moment) const;

 private:
  Matrix products_;  // sum of lost lostᵀ
  std::int64_t outputs_ = 0;
};

}  // namespace comera::tt
