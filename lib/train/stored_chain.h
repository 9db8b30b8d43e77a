// The numbers of a chain in a model's memory, on the host and in double.
#pragma once

#include "lib/layers/training/model.h"
#include "lib/plan/walk.h"
#include "lib/tt/chain.h"

namespace comera::train {

// The chain with its diagonals multiplied into the cores before them, without order and gauge columns.
tt::Chain read_chain(const plan::Machine& machine, const layers::ChainParameters& chain);

}  // namespace comera::train
