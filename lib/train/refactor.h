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
// A factor on the rates of cores and diagonals in the step after `done` steps with these factors, if there are new ones
// every `every` steps. AdamW's first steps with new moments move every entry by the whole rate, whatever its gradient
// is, so rates rise over a tenth of these steps as they do at the begin of a run. Without it a decoder in tensor-train
// form ended two steps after a new factorisation, its gradient no longer finite.
double rise_after_refactor(std::int64_t done, std::int64_t every);

// Both set the moments of all cores and diagonals to 0. A chain with a gauge, or with an activation between its
// factors, keeps its numbers; a folded one has no diagonals, so its cores take everything. InputError if the model has
// no chain, or one that would keep its numbers.
void require_refactorable(const layers::Model& model);

}  // namespace comera::train
