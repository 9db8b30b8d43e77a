// Builds a decoder as an ONNX graph, with the names and axes that Hugging Face's optimum uses.
#pragma once

#include "lib/export/graph_layers.h"
#include "models/decoder/decoder_spec.h"

namespace comera::exporting {

// Inputs input_ids and position_ids [batch_size, sequence_length] and attention_mask [batch_size, sequence_length], all
// int64; output logits [batch_size, sequence_length, vocabulary]. With past: attention_mask covers past and new tokens,
// inputs past_key_values.N.key and .value and outputs present.N.key and .value [batch_size, key heads, tokens, head
// size].
void build_decoder(GraphBuild& build, const models::DecoderSpec& spec, bool with_past);

}  // namespace comera::exporting
