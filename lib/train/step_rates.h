// The learning rates of a step.
#pragma once

#include "lib/engine/weight_update.h"
#include "lib/train/rank_adaptation.h"
#include "lib/train/train_options.h"

namespace comera::train {

// For the step after `done` finished ones: the rates of `options` by its schedule, and where moments began. The rate of
// diagonals goes its own way while `ranks` fall to a target.
engine::UpdateStep update_step(const TrainOptions& options, const RankAdaptation& ranks, std::int64_t done);

}  // namespace comera::train
