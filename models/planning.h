// Batches without data, to plan memory.
#pragma once

#include "lib/data/batch.h"
#include "models/spec.h"

namespace comera::models {

// A batch of the given shape as a loader would make it for the model's task, with zero contents.
data::Batch planning_batch(const Spec& spec, std::int64_t sequences, std::int64_t length, double mask_probability);

}  // namespace comera::models
