// Weights on grids: the menu of a layer, and its fit.
#pragma once

#include <memory>
#include <vector>

#include "lib/compress/fit/layer.h"
#include "lib/quant/corrected.h"

namespace comera::compress {

// A form that a layer may take, and its loss in the measure of LayerFactors::losses().
struct GridChoice {
  LayerPlan plan;
  double loss = 0;
};

// The forms in a menu. Corrections and factors are for linear layers whose inputs are known.
struct MenuForms {
  std::vector<quant::Grid> grids;
  bool corrections = true;                     // of several ranks; if `first` has a rank, that rank alone
  bool factors = false;                        // low-rank and TT forms in place of a grid, up to `widest_spectrum`
  std::vector<std::int64_t> exact_rows = {0};  // numbers of exact rows of a table
};

// The loss of a layer in each form. `norm` becomes the loss of the zero matrix. Without coordinate descent, which
// lowers the losses of all grids by about the same share.
struct GridMenu {
  std::vector<GridChoice> choices;
  double norm = 0;
  // The weight on the grids on which its effect is measured: those of at most `probed_bits` in groups of 32, and the
  // first of all.
  struct Probed {
    std::shared_ptr<const quant::Quantised> base;
    double loss = 0;
    std::vector<std::int32_t> exact_rows = {};
  };
  std::vector<Probed> probed;  // from the coarsest to the finest; of a grid, with exact rows in the order of choices
};
constexpr int probed_bits = 3;
GridMenu grid_menu(const Candidate& candidate, const tt::Matrix& weight, const Evidence& evidence,
                   const LayerPlan& first, const MenuForms& forms);

// A layer on a grid as it is stored.
struct GridFit {
  quant::Quantised base;
  tt::Chain correction;                                       // rank 0: without cores; and the exact rows of a table
  std::vector<std::vector<std::byte>> correction_bytes = {};  // of every core
  tt::Matrix fitted;                                          // [in x out]; empty for tables
};
// [in x out] or [rows x columns]
tt::Matrix expand(const Candidate& candidate, const quant::Quantised& base);

// GPTQ with inputs, else each number to the nearest level. Exact rows are those that the text looks up most. `target`:
// target_of() the weight.
GridFit fit_on_grid(const Candidate& candidate, const tt::Matrix& target, const Evidence& evidence,
                    const LayerPlan& plan);

// Fills rel_error, output_error and direction_error. `target`: target_of() the weight.
void measure_fit(const Candidate& candidate, const tt::Matrix& weight, const tt::Matrix& target, GridFit fit,
                 const Evidence& evidence, LayerOutcome& outcome);

}  // namespace comera::compress
