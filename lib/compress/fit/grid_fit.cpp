#include "lib/compress/fit/grid_fit.h"

#include <algorithm>

#include "lib/compress/fit/decoder_fit.h"
#include "lib/tt/data_aware.h"

namespace comera::compress {
namespace {

using tt::Matrix;

constexpr std::int64_t correction_ranks[] = {8, 16, 32, 48, 64, 96, 128};

// Sum of the squared errors of a weight: of its outputs, or of its rows by their look-ups, or of its numbers. `fitted`:
// null for zeros.
double loss_of(const Candidate& candidate, const Matrix& weight, const Matrix* fitted, const Evidence& evidence) {
  if (evidence.inputs) {
    const Matrix& moment = evidence.inputs->fit.moment;
    return fitted ? output_loss(candidate, weight, *fitted, moment) : output_norm(candidate, weight, moment);
  }
  double sum = 0;
  for (std::int64_t r = 0; r < weight.rows; ++r) {
    double row = 0;
    for (std::int64_t c = 0; c < weight.columns; ++c) {
      const double error = weight(r, c) - (fitted ? (*fitted)(r, c) : 0);
      row += error * error;
    }
    sum += (evidence.row_weights.empty() ? 1 : evidence.row_weights[static_cast<std::size_t>(r)]) * row;
  }
  return sum;
}

quant::Quantised on_grid(const Candidate& candidate, const Matrix& weight,
                         const std::optional<quant::LinearFit>& inputs, quant::Grid grid) {
  if (candidate.table) return inputs ? fit_decoder(weight, *inputs, grid) : quant::round_table(weight, grid);
  return inputs ? inputs->fit(weight, grid) : quant::round_linear(weight, grid);
}

std::optional<quant::LinearFit> fit_of(const Evidence& evidence, int sweeps) {
  if (!evidence.inputs) return std::nullopt;
  return quant::LinearFit(evidence.inputs->fit.moment, {.sweeps = sweeps});
}

// A word table that also decodes. Each row is an input, where all of its errors count, and gives logits, where errors
// along frequent inputs of the decoder count most. A multiple of the identity beside the decoder's moment stands for
// the first use. Kept if it moves the model's next words less than plain rounding.
quant::Quantised fit_words(const Matrix& table, const Evidence& evidence, const LayerPlan& plan) {
  constexpr double identity = 3;  // of the mean eigenvalue of the moment
  quant::Quantised rounded = quant::round_table(table, plan.grid);
  const quant::LinearFit inputs(evidence.inputs->fit.moment, {.sweeps = plan.sweeps, .damping = identity});
  quant::Quantised fitted = fit_decoder(table, inputs, plan.grid);
  const auto moved = [&](const quant::Quantised& words) {
    return evidence.divergence(quant::expand_table(words)).value_or(0);
  };
  return moved(fitted) < moved(rounded) ? fitted : rounded;
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

Matrix expand(const Candidate& candidate, const quant::Quantised& base) {
  return candidate.table ? quant::expand_table(base) : quant::expand_linear(base);
}

GridMenu grid_menu(const Candidate& candidate, const Matrix& weight, const Evidence& evidence, const LayerPlan& first,
                   const std::vector<quant::Grid>& grids, bool corrections) {
  GridMenu menu;
  menu.norm = loss_of(candidate, weight, nullptr, evidence);
  const std::optional<quant::LinearFit> inputs = fit_of(evidence, 0);
  std::vector<quant::Grid> rising = grids;
  std::ranges::stable_sort(rising, {}, quant::bits_of);
  for (const quant::Grid grid : rising) {
    LayerPlan plan = first;
    plan.form = PlannedForm::grid;
    plan.grid = grid;
    quant::Quantised base = on_grid(candidate, weight, inputs, grid);
    const Matrix fitted = expand(candidate, base);
    const double plain = loss_of(candidate, weight, &fitted, evidence);
    if (first.rank == 0) menu.choices.push_back({plan, plain});
    if (evidence.inputs && !candidate.table && (corrections || first.rank != 0)) {
      const std::vector<double> losses =
          tt::WhitenedCurve(tt::difference(weight, fitted), evidence.inputs->fit.moment).losses();
      for (const std::int64_t rank : correction_ranks) {
        plan.rank = rank;
        if (rank > std::min(candidate.in(), candidate.out()) / 2 || (first.rank != 0 && rank != first.rank)) continue;
        menu.choices.push_back({plan, losses[static_cast<std::size_t>(rank)]});
      }
    }
    if (menu.probed.empty() || quant::bits_of(grid) <= probed_bits) menu.probed.push_back({std::move(base), plain});
  }
  return menu;
}

GridFit fit_on_grid(const Candidate& candidate, const Matrix& target, const Evidence& evidence, const LayerPlan& plan) {
  GridFit fit{{}, no_correction(candidate), {}};
  if (candidate.also_decodes && evidence.inputs && evidence.divergence) {
    fit.base = fit_words(target, evidence, plan);
    fit.fitted = expand(candidate, fit.base);
    return fit;
  }
  if (candidate.table || !evidence.inputs) {
    const std::optional<quant::LinearFit> inputs = fit_of(evidence, plan.sweeps);
    fit.base = on_grid(candidate, target, inputs, plan.grid);
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
