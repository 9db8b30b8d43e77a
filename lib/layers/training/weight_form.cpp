#include "lib/layers/training/weight_form.h"

#include "lib/core/error.h"

namespace comera::layers {

WeightForm chain_form(tt::Layout layout, bool folded) {
  tt::Sizes ranks = layout.ranks;
  return {Storage::chain, std::move(layout), std::move(ranks), folded};
}

std::string name_of(kernels::Activation activation) {
  switch (activation) {
    case kernels::Activation::none: return "";
    case kernels::Activation::silu: return "silu";
    case kernels::Activation::gelu: return "gelu";
    case kernels::Activation::tanh: return "tanh";
  }
  return "";
}

kernels::Activation activation_named(const std::string& name) {
  using kernels::Activation;
  for (const Activation activation : {Activation::silu, Activation::gelu, Activation::tanh})
    if (name == name_of(activation)) return activation;
  COMERA_CHECK(name.empty());
  return Activation::none;
}

void require_supported(const WeightForm& form, const std::string& name) {
  if (form.storage == Storage::quantised || form.storage == Storage::quantised_chain)
    fail_input("[model] {}: this version does not compute with quantised weights; use a dense weight or a chain", name);
}

}  // namespace comera::layers
