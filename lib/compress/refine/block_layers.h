// The linear layers of a block that is trained alone.
#pragma once

#include <string>
#include <vector>

#include "lib/io/tt_format.h"
#include "models/architecture.h"

namespace comera::compress {

// The name of the layer of a weight: without ".weight".
std::string layer_of(const layers::Parameter& weight);
std::vector<std::string> linears_of_block(const models::ModelSpec& spec, std::int64_t block);

// The form of a weight in a block for training. Weights that stay dense (`chain` is null), and numbers on a grid beside
// a correction, are fixed. A grid without a correction is dense: its codes and scales are trained.
layers::WeightForm form_in_block(const io::ChainSpec* chain);

}  // namespace comera::compress
