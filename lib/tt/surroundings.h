// How far a change of one core moves the weight of a linear chain.
#pragma once

#include <vector>

#include "lib/tt/chain.h"

namespace comera::tt {

// For every core k of a tt a bound of |dW|_2 / |dG|_2, where dG is a change of core k alone. With the cores before it,
// a product L [n_1 .. n_{k-1} x r_{k-1}], those behind it in the same half, M [r_k n_{k+1} .. x R], and the other half
// B [R x out],
//     dW = (L x 1 x 1) (dG x 1) M B,   |dW|_2 <= |L|_2 |M|_2 |B|_2 |dG|_2,   dG as a matrix [r_{k-1} n_k x r_k];
// the cores of the other half the same way, transposed. Of a pair it is |B|_2 and |A|_2, and some change reaches it. An
// identity block of a gauge counts as part of its core. Norms are the largest eigenvalues of Gram matrices, whose sizes
// are ranks. An order of the inputs changes nothing. `chain` has kind tt and at least one core.
std::vector<double> surrounding_norms(const Chain& chain);

}  // namespace comera::tt
