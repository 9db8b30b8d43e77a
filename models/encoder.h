// A transformer encoder with a head: embeddings, blocks, classifier or masked language model.
#pragma once

#include "models/encoder_spec.h"

namespace comera::models {

// A spec that check() accepts. Weights are unbound; dtype is that of the backend that will compute.
std::unique_ptr<layers::Model> make_encoder(const EncoderSpec& spec, DType dtype);

}  // namespace comera::models
