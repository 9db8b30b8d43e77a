#include "lib/layers/training/weight_form.h"

#include "lib/core/error.h"

namespace comera::layers {

WeightForm chain_form(tt::Layout layout, bool folded) {
  tt::Sizes ranks = layout.ranks;
  return {Storage::chain, std::move(layout), std::move(ranks), folded};
}

WeightForm grid_form(kernels::Grid grid, tt::Layout correction) {
  WeightForm form = chain_form(std::move(correction), true);
  form.storage = Storage::grid;
  form.grid = grid;
  return form;
}

std::string name_of(kernels::Activation activation) {
  switch (activation) {
    case kernels::Activation::none: return "";
    case kernels::Activation::silu: return "silu";
    case kernels::Activation::gelu: return "gelu";
    case kernels::Activation::tanh: return "tanh";
    case kernels::Activation::gelu_tanh: return "gelu_tanh";
    case kernels::Activation::relu: return "relu";
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

}  // namespace comera::layers
