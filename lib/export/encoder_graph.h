// Builds an encoder as an ONNX graph, with the names and axes that Hugging Face's optimum uses.
#pragma once

#include "lib/export/graph_layers.h"
#include "models/encoder/encoder_spec.h"

namespace comera::exporting {

// Inputs input_ids, attention_mask and (if the model has types) token_type_ids, int64 [batch_size, sequence_length].
// Outputs: a classifier logits [batch_size, labels], a regression [batch_size, 1]; a masked language model logits
// [batch_size, sequence_length, vocabulary]; a model without head
// last_hidden_state [batch_size, sequence_length, hidden] and sentence_embedding [batch_size, hidden].
void build_encoder(GraphBuild& build, const models::EncoderSpec& spec);

}  // namespace comera::exporting
