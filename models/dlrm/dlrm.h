// Builds DLRMs.
#pragma once

#include "lib/layers/training/model.h"
#include "models/dlrm/dlrm_spec.h"

namespace comera::models {

std::unique_ptr<layers::Model> make_dlrm(const DlrmSpec& spec, DType dtype);

}  // namespace comera::models
