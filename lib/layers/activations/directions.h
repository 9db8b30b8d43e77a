// Keeps the inputs of dense linear layers as products with one vector per layer (VeLoRA, arXiv 2405.17991): the inputs
// of a token are cut into groups of M, and of each group z its product with a unit vector v is kept, so M times fewer
// numbers. The weight gradient is that of <z, v> v in place of z; gradients of x and of the bias stay exact.
//
// v is the mean of the groups of the first batch that the layer sees, and never changes: it is a state of the training.
// Layers that read the same x keep one set of products, with the vector of the first of them.
//
// Chains (tensor trains, low-rank pairs) keep x by other rules. The estimate has a fixed bias: the gradient of the left
// factor would stay in a subspace of n / M dimensions for the whole training, and no update could lead its cores out of
// it, while int4 at about the same size gives the gradient of each core to 7 %.
//
// Inputs that another layer keeps in full, and inputs that are computed again, stay exact.
#pragma once

#include <memory>
#include <string>

#include "lib/layers/training/saved.h"

namespace comera::layers {

struct DirectionSettings {
  std::int64_t group = 8;  // inputs per group, M
  double scale = 1;        // of the weight gradients
};

// `rule`: as the option has it, for messages. declare() throws InputError if the groups do not divide the inputs of a
// layer.
std::unique_ptr<Keeper> make_direction_keeper(const DirectionSettings& settings, const std::string& rule);

}  // namespace comera::layers
