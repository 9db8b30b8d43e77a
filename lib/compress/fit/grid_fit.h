// Weights on grids: the menu of a layer, and its fit.
#pragma once

#include <vector>

#include "lib/compress/fit/layer.h"
#include "lib/quant/corrected.h"

namespace comera::compress {

// A form that a layer may take, and its loss in the measure of LayerFactors::losses().
struct GridChoice {
  LayerPlan plan;
  double loss = 0;
};

// The loss of a layer on each of these grids. With `corrections` there are choices with corrections of several ranks
// too, for linear layers whose inputs are known; if `first` has a rank, that rank alone. `norm` becomes the loss of the
// zero matrix. Without coordinate descent, which lowers the losses of all grids by about the same share.
struct GridMenu {
  std::vector<GridChoice> choices;
  double norm = 0;
  // The weight on the grids on which its effect is measured: those of at most `probed_bits`, and the coarsest.
  struct Probed {
    quant::Quantised base;
    double loss = 0;
  };
  std::vector<Probed> probed;  // from the coarsest to the finest
};
constexpr int probed_bits = 3;
GridMenu grid_menu(const Candidate& candidate, const tt::Matrix& weight, const Evidence& evidence,
                   const LayerPlan& first, const std::vector<quant::Grid>& grids, bool corrections);

// A layer on a grid as it is stored: the correction is rounded to half precision.
struct GridFit {
  quant::Quantised base;
  tt::Chain correction;  // rank 0: without cores
  tt::Matrix fitted;     // [in x out]; empty for tables
};
// [in x out] or [rows x columns]
tt::Matrix expand(const Candidate& candidate, const quant::Quantised& base);

// GPTQ with inputs, else each number to the nearest level. `target`: target_of() the weight.
GridFit fit_on_grid(const Candidate& candidate, const tt::Matrix& target, const Evidence& evidence,
                    const LayerPlan& plan);

// Fills rel_error, output_error and direction_error. `target`: target_of() the weight.
void measure_fit(const Candidate& candidate, const tt::Matrix& weight, const tt::Matrix& target, GridFit fit,
                 const Evidence& evidence, LayerOutcome& outcome);

}  // namespace comera::compress
