#include "lib/compress/refine/block_layers.h"

#include "models/lone_block.h"

namespace comera::compress {

std::string layer_of(const layers::Parameter& weight) { return weight.name.substr(0, weight.name.rfind(".weight")); }

std::vector<std::string> linears_of_block(const models::ModelSpec& spec, std::int64_t block) {
  models::ModelSpec dense = spec;
  models::common(dense).forms.clear();
  const auto model = models::make_lone_block(dense, block, DType::f32);
  std::vector<std::string> names;
  for (const layers::Parameter& parameter : model->parameters().all())
    if (parameter.shape.dims() == 2) names.push_back(layer_of(parameter));
  return names;
}

layers::WeightForm form_in_block(const io::ChainSpec* chain) {
  layers::WeightForm form;
  if (chain && chain->base && chain->layout.empty()) return form;
  form.storage = layers::Storage::fixed;
  if (!chain) return form;
  form.layout = chain->layout;
  form.initial_ranks = chain->initial_ranks;
  form.folded = true;
  if (!chain->base) form.storage = layers::Storage::chain;
  return form;
}

}  // namespace comera::compress
