// One block of a model as a model of its own, for training on the block's own outputs (`comera tensorize --refine`).
#pragma once

#include <memory>
#include <string>

#include "models/architecture.h"

namespace comera::models {

// Names of the tensors of a batch, [B*T, hidden] in the element type of the machine. The input of a block is the
// residual stream before it, for post-LN models its normed input; its output is the same after the block.
constexpr const char *block_input = "block_input", *block_target = "block_target";

// True if blocks read a norm of the residual stream, and the last norm of a block is the first norm of the next.
bool norms_inputs(const ModelSpec& spec);

// The block of this number, with the norm before it. A batch holds `lengths`, `samples` and the two tensors above.
//   loss = sum over tokens of |output - target|^2 / hidden, times the step's loss scale.
// Evaluations also give the output as Outputs::hidden, and for models that norm their inputs the input of the next
// block as Outputs::embedding, both [B*T, hidden]. Without dropout. Parameters have the names that they have in the
// whole model. The last norm has no influence on the loss where it belongs to the next block.
std::unique_ptr<layers::Model> make_lone_block(const ModelSpec& spec, std::int64_t number, DType dtype);

}  // namespace comera::models
