#include "lib/layers/cast_weights.h"

#include "kernels/backend.h"
#include "kernels/cast.h"
#include "lib/core/error.h"

namespace comera::layers {

const Tensor& brought(const Walk& walk, Parameter& parameter) {
  if (parameter.source && walk.computes()) parameter.source->bring(parameter);
  return parameter.value;
}

CastWeights::CastWeights(DType dtype) : dtype_(dtype) {}
CastWeights::~CastWeights() = default;

int CastWeights::add(Parameter* weight) {
  weights_.push_back(weight);
  if (copied()) copies_.add(weight->name + ".copy", plan::Category::weights, dtype_, weight->shape);
  return static_cast<int>(weights_.size()) - 1;
}

// Sets the addresses again, because they change when memory is planned again.
void CastWeights::prepare(Walk& walk) {
  if (!copied() || weights_.empty()) return;
  casts_.clear();
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    COMERA_CHECK(!weights_[i]->source);
    const Tensor& value = weights_[i]->value;
    casts_.push_back({value.elements(), value.data, copies_[static_cast<int>(i)].data});
  }
  walk.run(walk.backend().cast, kernels::Cast{casts_.data(), static_cast<int>(casts_.size())});
}

}  // namespace comera::layers
