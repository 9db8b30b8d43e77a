// Access to the common part of a specification of either architecture.
#include <iterator>

#include "models/architecture.h"

namespace comera::models {

const Spec& common(const ModelSpec& spec) {
  return std::visit([](const auto& one) -> const Spec& { return one; }, spec);
}

Spec& common(ModelSpec& spec) {
  return std::visit([](auto& one) -> Spec& { return one; }, spec);
}

const char* kind_of(const ModelSpec& spec) {
  constexpr const char* kinds[] = {"an encoder", "a decoder", "a model of clicks", "a model of images"};
  static_assert(std::size(kinds) == std::variant_size_v<ModelSpec>);
  return kinds[spec.index()];
}

void set_dropout(ModelSpec& spec, double probability) {
  common(spec).dropout = common(spec).attention_dropout = probability;
  // A head without a dropout of its own has that of the branches. ViT's head has none at all.
  if (auto* encoder = std::get_if<EncoderSpec>(&spec); encoder && encoder->head_dropout)
    encoder->head_dropout = probability;
  if (auto* decoder = std::get_if<DecoderSpec>(&spec); decoder && decoder->family == DecoderFamily::gpt2)
    decoder->embedding_dropout = probability;
}

std::vector<WeightSite> weight_sites(const ModelSpec& spec) {
  return std::visit([](const auto& one) { return weight_sites(one); }, spec);
}

}  // namespace comera::models
