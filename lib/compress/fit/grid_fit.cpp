#include "lib/compress/fit/grid_fit.h"

#include <algorithm>

#include "lib/tt/data_aware.h"

namespace comera::compress {
namespace {

using tt::Matrix;

constexpr std::int64_t correction_ranks[] = {8, 16, 32, 48, 64, 96, 128};

// Sum of the squared errors of a weight: of its outputs, or of its rows by their look-ups, or of its numbers.
double loss_of(const Matrix& weight, const Matrix& fitted, const Evidence& evidence) {
  if (evidence.inputs) return tt::output_loss(weight, fitted, evidence.inputs->fit.moment);
  double sum = 0;
  for (std::int64_t r = 0; r < weight.rows; ++r) {
    double row = 0;
    for (std::int64_t c = 0; c < weight.columns; ++c) {
      const double error = weight(r, c) - fitted(r, c);
      row += error * error;
    }
    sum += (evidence.row_weights.empty() ? 1 : evidence.row_weights[static_cast<std::size_t>(r)]) * row;
  }
  return sum;
}

quant::Quantised rounded(const Candidate& candidate, const Matrix& weight, const Evidence& evidence,
                         const LayerPlan& plan) {
  const quant::Grid grid = plan.grid;
  if (candidate.table) return quant::round_table(weight, grid);
  return evidence.inputs ? quant::fit_linear(weight, evidence.inputs->fit.moment, grid, {plan.sweeps})
                         : quant::round_linear(weight, grid);
}

Matrix expand(const Candidate& candidate, const quant::Quantised& base) {
  return candidate.table ? quant::expand_table(base) : quant::expand_linear(base);
}

void round_factors(tt::Pair& factors) {
  tt::Chain chain = tt::chain_of_pair(std::move(factors));
  round_to(chain, io::StoredType::F16);
  factors = tt::factors(chain);
}

tt::Chain no_correction(const Candidate& candidate) {
  tt::Chain chain;
  chain.layout = candidate.table ? tt::ttm_layout({candidate.in(), 1}, {1, candidate.out()}, {1, 0, 1})
                                 : tt::tt_layout({candidate.in()}, {candidate.out()}, {1, 0, 1});
  return chain;
}

}  // namespace

GridMenu grid_menu(const Candidate& candidate, const Matrix& weight, const Evidence& evidence, const LayerPlan& first,
                   const std::vector<quant::Grid>& grids, bool corrections) {
  GridMenu menu;
  menu.norm = loss_of(weight, Matrix(weight.rows, weight.columns), evidence);
  int fewest = 99;
  for (const quant::Grid grid : grids) {
    LayerPlan plan = first;
    plan.form = PlannedForm::grid;
    plan.grid = grid;
    Matrix fitted = expand(candidate, rounded(candidate, weight, evidence, plan));
    const double plain = loss_of(weight, fitted, evidence);
    if (first.rank == 0) menu.choices.push_back({plan, plain});
    if (evidence.inputs && (corrections || first.rank != 0)) {
      const std::vector<double> losses =
          tt::WhitenedCurve(tt::difference(weight, fitted), evidence.inputs->fit.moment).losses();
      for (const std::int64_t rank : correction_ranks) {
        plan.rank = rank;
        if (rank > std::min(candidate.in(), candidate.out()) / 2 || (first.rank != 0 && rank != first.rank)) continue;
        menu.choices.push_back({plan, losses[static_cast<std::size_t>(rank)]});
      }
    }
    if (quant::bits_of(grid) >= fewest) continue;
    fewest = quant::bits_of(grid);
    menu.coarsest = std::move(fitted);
    menu.coarsest_loss = plain;
  }
  return menu;
}

GridFit fit_on_grid(const Candidate& candidate, const Matrix& target, const Evidence& evidence, const LayerPlan& plan) {
  GridFit fit{{}, no_correction(candidate), {}};
  if (candidate.table || !evidence.inputs) {
    fit.base = rounded(candidate, target, evidence, plan);
    fit.fitted = expand(candidate, fit.base);
    return fit;
  }
  quant::Corrected corrected = quant::fit_corrected(target, {evidence.inputs->fit.moment, evidence.inputs->held.moment},
                                                    plan.grid, plan.rank, round_factors, {plan.sweeps});
  fit.fitted = quant::expand(corrected);
  fit.base = std::move(corrected.base);
  if (plan.rank > 0) fit.correction = tt::chain_of_pair(std::move(corrected.correction));
  return fit;
}

}  // namespace comera::compress
