// Computes the space of the largest eigenvectors of a Gram matrix if only a part of them is needed.
#pragma once

#include <cstdint>

#include "lib/tt/matrix.h"

namespace comera::tt {

struct LeadingSpace {
  Matrix basis;  // [count x side] orthonormal rows, approximate eigenvectors, the largest eigenvalue first
  // Estimate of the additional squared norm in the best basis of this size: sum |G q - θ q|² / (θ - θ at the edge of
  // the space).
  double gap = 0;
};

// Chebyshev-filtered subspace iteration (Zhou, Saad, Tiago and Chelikowsky 2006) on a aᵀ (`of_rows`) or aᵀ a, in float.
// Few, fast products with the Gram matrix suffice. The basis may be wrong in the seventh digit, because the captured
// part is computed afterwards from `a` itself. Ends when the gap is at most `tolerance` of the squared norm that
// `count` directions leave, or when it cannot fall further.
LeadingSpace leading_space(const Matrix& a, bool of_rows, std::int64_t count, double tolerance);
// Width of the block that the iteration uses for `count` directions. Extra columns make it converge faster.
std::int64_t filtered_columns(std::int64_t side, std::int64_t count);

}  // namespace comera::tt
