// Builds an encoder or a vision transformer as an ONNX graph, with the names and axes that Hugging Face's optimum uses.
#pragma once

#include "lib/export/graph_layers.h"
#include "models/encoder/encoder_spec.h"
#include "models/vit/vit_spec.h"

namespace comera::exporting {

// Inputs input_ids, attention_mask and (if the model has types) token_type_ids, int64 [batch_size, sequence_length].
// Outputs: a classifier logits [batch_size, labels], a regression [batch_size, 1]; a masked language model logits
// [batch_size, sequence_length, vocabulary]; a model without head
// last_hidden_state [batch_size, sequence_length, hidden] and sentence_embedding [batch_size, hidden].
void build_encoder(GraphBuild& build, const models::EncoderSpec& spec);
// Input pixel_values, float [batch_size, channels, size, size]; output logits [batch_size, labels].
void build_vit(GraphBuild& build, const models::VitSpec& spec);

}  // namespace comera::exporting
