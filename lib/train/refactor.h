// New factorisations of every weight in tensor-train form. The two sides of a bond drift apart in size and direction
// while they learn, and the moments belong to the old factors (arXiv 2505.22922). The weights stay the same but for
// rounding; the moments of cores and diagonals become 0. A chain with a gauge, or with a rank above what its sizes can
// have, stays as it is.
#pragma once

#include "lib/engine/engine.h"

namespace comera::train {

// The two sides of every bond get equal halves of the weight's singular values (tt::balance_chain), rank diagonals 1.
void refactor(engine::Engine& engine);
// Entry i of a rank diagonal becomes sqrt(s_i / s_1), with the singular values s of its bond, the largest first. The
// two sides share the rest equally. An entry then measures what the weight loses without it. After plain training all
// entries are near 1 and measure nothing.
void refactor_by_singular_values(engine::Engine& engine);
// Both set the moments of all cores and diagonals to 0. A chain with a gauge, or with an activation between its
// factors, keeps its numbers; a folded one has no diagonals, so its cores take everything. InputError if the model has
// no chain, or one that would keep its numbers.
void require_refactorable(const layers::Model& model);

}  // namespace comera::train
