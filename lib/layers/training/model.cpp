#include "lib/layers/training/model.h"

namespace comera::layers {

Model::Model(DType dtype) : parameters_(kernels::parameter_type(dtype)), cast_weights_(dtype) {}

Model::~Model() = default;

std::unique_ptr<KeyValueCache> Model::make_cache(std::int64_t /*sequences*/, std::int64_t /*capacity*/) const {
  return nullptr;
}

}  // namespace comera::layers
