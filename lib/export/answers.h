// Computes the outputs of a model and of its graph for the same tokens, by task.
#pragma once

#include "lib/engine/engine.h"
#include "lib/export/compare.h"
#include "models/architecture.h"

namespace comera::exporting {

// The outputs of the engine's model: logits, log probabilities, or embeddings with hidden states. The engine must
// return hidden states.
std::vector<double> model_answers(const models::Spec& spec, engine::Engine& engine, const RandomTokens& tokens);

// Runs model and graph on `tokens`. `engine` holds the model's weights and returns hidden states. A graph with a past
// reads the tokens in two parts, so that its past is used.
// `float_runs`: runs of the graph in float; all but the first with random rounding.
Answer ask(io::OnnxFile& file, const models::ModelSpec& spec, engine::Engine& engine, const RandomTokens& tokens,
           std::uint64_t float_runs);

}  // namespace comera::exporting
