// A new factorisation of every weight in tensor-train form, from time to time: the two sides of a bond drift apart in
// size and direction while they learn, and the moments belong to the old factors (arXiv 2505.22922).
#pragma once

#include "lib/engine/engine.h"

namespace comera::train {

// Gives the two sides of every bond equal halves of the weight's singular values (tt::balance_chain), sets rank
// diagonals to 1 and the moments of cores and diagonals to 0. The weights stay the same but for rounding. A chain with
// a rank above what its sizes can have stays as it is.
void refactor(engine::Engine& engine);
// InputError if the model has no chain, or one with a gauge.
void require_refactorable(const layers::Model& model);

}  // namespace comera::train
