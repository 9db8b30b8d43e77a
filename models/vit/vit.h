// Builds vision transformers.
#pragma once

#include "lib/layers/training/model.h"
#include "models/vit/vit_spec.h"

namespace comera::models {

// `spec` must pass check(). Weights are unbound. `dtype` is the activation dtype of the backend that will compute.
std::unique_ptr<layers::Model> make_vit(const VitSpec& spec, DType dtype);

}  // namespace comera::models
