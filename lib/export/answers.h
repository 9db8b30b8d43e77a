// What a model and its graph answer to the same tokens, by task.
#pragma once

#include "lib/export/compare.h"
#include "lib/train/step.h"
#include "models/architecture.h"

namespace comera::exporting {

// Both answers to `tokens`. `engine` holds the model's weights and hands out hidden states. A graph with a past reads the tokens in two
// parts, so that its past is used.
Answer ask(io::OnnxFile& file, const models::ModelSpec& spec, train::Engine& engine, const RandomTokens& tokens);

}  // namespace comera::exporting
