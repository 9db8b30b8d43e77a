// A transformer encoder with a head: embeddings, blocks, and a classifier, regressor, masked language model or
// sentence embedding.
#pragma once

#include "models/encoder/encoder_spec.h"

namespace comera::models {

// `spec` must pass check(). Weights are unbound. `dtype` is the activation dtype of the backend that will compute.
std::unique_ptr<layers::Model> make_encoder(const EncoderSpec& spec, DType dtype);

}  // namespace comera::models
