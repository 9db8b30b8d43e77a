// Access to the common part of a specification of either architecture.
#include "models/architecture.h"

namespace comera::models {

const Spec& common(const ModelSpec& spec) {
  return std::visit([](const auto& one) -> const Spec& { return one; }, spec);
}

Spec& common(ModelSpec& spec) {
  return std::visit([](auto& one) -> Spec& { return one; }, spec);
}

std::vector<WeightSite> weight_sites(const ModelSpec& spec) {
  return std::visit([](const auto& one) { return weight_sites(one); }, spec);
}

}  // namespace comera::models
