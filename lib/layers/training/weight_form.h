// The stored form of a weight of a model.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/types.h"
#include "lib/tt/layout.h"

namespace comera::layers {

enum class Storage : std::uint8_t { dense, chain, quantised, quantised_chain };

struct WeightForm {
  Storage storage = Storage::dense;
  tt::Layout layout;        // of a chain
  tt::Sizes initial_ranks;  // of a chain: ranks at the start of the training, before any removal
  bool folded = false;      // of a chain: no diagonals, they are multiplied into the cores
  // Of a low-rank linear weight: y = between(x A) B (CoLA, arXiv 2502.10940). With one the weight is no matrix.
  kernels::Activation between = kernels::Activation::none;

  bool dense() const { return storage == Storage::dense; }
};

WeightForm chain_form(tt::Layout layout, bool folded = false);  // with its ranks as the initial ranks

// "silu", "gelu", "tanh", or "" for none.
std::string name_of(kernels::Activation activation);
kernels::Activation activation_named(const std::string& name);

// InputError that names the weight if layers cannot compute with its storage: quantised weights.
void require_supported(const WeightForm& form, const std::string& name);

}  // namespace comera::layers
