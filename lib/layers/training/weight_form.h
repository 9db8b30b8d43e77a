// The stored form of a weight of a model.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/grids.h"
#include "lib/tt/layout.h"

namespace comera::layers {

// grid: numbers on a grid and a chain that corrects them, for evaluation only. fixed: dense numbers that are not
// trained, and a chain that corrects them, which is.
enum class Storage : std::uint8_t { dense, chain, grid, fixed };

struct WeightForm {
  Storage storage = Storage::dense;
  tt::Layout layout;        // of a chain, or of a correction: empty or without modes if there is none
  tt::Sizes initial_ranks;  // of a chain: ranks at the start of the training, before any removal
  bool folded = false;      // of a chain: no diagonals, they are multiplied into the cores
  // Of a low-rank linear weight: y = between(x A) B (CoLA, arXiv 2502.10940). With one the weight is no matrix.
  kernels::Activation between = kernels::Activation::none;

  kernels::Grid grid = kernels::Grid::q8_0;  // of Storage::grid

  bool dense() const { return storage == Storage::dense; }
};

WeightForm chain_form(tt::Layout layout, bool folded = false);  // with its ranks as the initial ranks
WeightForm grid_form(kernels::Grid grid, tt::Layout correction);

// "silu", "gelu", "tanh", or "" for none.
std::string name_of(kernels::Activation activation);
kernels::Activation activation_named(const std::string& name);

}  // namespace comera::layers
