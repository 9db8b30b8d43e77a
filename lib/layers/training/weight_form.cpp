#include "lib/layers/training/weight_form.h"

#include "lib/core/error.h"

namespace comera::layers {

WeightForm chain_form(tt::Layout layout, bool folded) {
  tt::Sizes ranks = layout.ranks;
  return {Storage::chain, std::move(layout), std::move(ranks), folded};
}

void require_supported(const WeightForm& form, const std::string& name) {
  if (form.storage == Storage::quantised || form.storage == Storage::quantised_chain)
    fail_input("[model] {}: this version does not compute with quantised weights; use a dense weight or a chain", name);
}

}  // namespace comera::layers
