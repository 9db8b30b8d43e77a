// The space of the largest eigenvectors of a Gram matrix, where no more than a part of them is wanted.
#pragma once

#include <cstdint>

#include "lib/tt/matrix.h"

namespace comera::tt {

struct LeadingSpace {
  Matrix basis;  // [count x side] orthonormal rows, approximate eigenvectors, the largest eigenvalue first
  double gap = 0;  // estimate of what the best basis of that size would capture more: sum |G q - θ q|² / (θ - θ of the
                   // space's edge)
};

// Chebyshev-filtered subspace iteration (Zhou, Saad, Tiago and Chelikowsky 2006) on a aᵀ (`of_rows`) or aᵀ a, in float:
// products with the Gram matrix are few and fast, and a basis may be wrong in the seventh digit because what it
// captures is computed afterwards from `a` itself. It ends when the gap is at most `tolerance` of what `count`
// directions leave of the squared norm, or cannot fall any more.
LeadingSpace leading_space(const Matrix& a, bool of_rows, std::int64_t count, double tolerance);
// Columns that the iteration works on for `count` directions: more of them end it sooner.
std::int64_t filtered_columns(std::int64_t side, std::int64_t count);

}  // namespace comera::tt
