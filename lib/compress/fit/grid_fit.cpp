#include "lib/compress/fit/grid_fit.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "lib/compress/fit/decoder_fit.h"
#include "lib/compress/fit/row_errors.h"
#include "lib/compress/fit/stored_cores.h"
#include "lib/compress/plan/exact_rows.h"
#include "lib/core/error.h"
#include "lib/tt/data_aware.h"

namespace comera::compress {
namespace {

using tt::Matrix;

std::vector<std::int64_t> ranks_of_menu(const Candidate& candidate) {
  std::vector<std::int64_t> ranks{8, 16, 32, 48, 64, 96, 128};
  std::erase_if(ranks, [&](std::int64_t rank) { return rank > std::min(candidate.in(), candidate.out()) / 2; });
  return ranks;
}

// Sum of the squared errors of a table: of its logits, or of its rows by their look-ups.
double table_loss(const Matrix& table, const quant::Quantised& base, const Evidence& evidence,
                  const std::vector<std::int32_t>& exact) {
  return evidence.inputs
             ? decoder_loss(table, base, evidence.inputs->fit.moment)
             : rows_lost(table, with_exact_rows(rows_of(base), exact, rows_of(table)), evidence.row_weights);
}

double norm_of(const Candidate& candidate, const Matrix& weight, const Evidence& evidence) {
  return evidence.inputs ? output_norm(candidate, weight, evidence.inputs->fit.moment)
                         : rows_lost(weight, nullptr, evidence.row_weights);
}

// The scales of groups are in half precision.
void require_scales(const Candidate& candidate, const Matrix& weight) {
  constexpr double most = 65504;
  const auto beyond = std::ranges::find_if(weight.values, [](double number) { return !(std::abs(number) <= most); });
  if (beyond != weight.values.end())
    fail_input(
        "[tensorize] {}: its number {:g} is beyond half precision, the type of the scales of a grid; let it stay "
        "dense, "
        "--layer '{}=form:dense'",
        candidate.name, *beyond, candidate.name);
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
// the first use. Kept if it moves the model's next words less than plain rounding, with the exact rows of `chain`.
quant::Quantised fit_words(const Matrix& table, const Evidence& evidence, const LayerPlan& plan,
                           const tt::Chain& chain) {
  constexpr double identity = 3;  // of the mean eigenvalue of the moment
  quant::Quantised rounded = quant::round_table(table, plan.grid);
  const quant::LinearFit inputs(evidence.inputs->fit.moment, {.sweeps = plan.sweeps, .damping = identity});
  quant::Quantised fitted = fit_decoder(table, inputs, plan.grid);
  const auto moved = [&](const quant::Quantised& words) {
    Matrix whole = quant::expand_table(words);
    tt::put_exact_rows(chain, whole);
    return evidence.divergence(whole).value_or(0);
  };
  return moved(fitted) < moved(rounded) ? fitted : rounded;
}

// Rounds the factors of a correction to the numbers that the file will have.
quant::RoundFactors rounding_of(const Candidate& candidate, const LayerPlan& plan) {
  return [spec = chain_of(plan, candidate), type = candidate.type](tt::Pair& factors) {
    tt::Chain chain = tt::chain_of_pair(std::move(factors));
    if (spec.cores) balance_columns(chain);
    store_cores(chain, spec, type);
    factors = tt::factors(chain);
  };
}

// The loss of a linear weight on a grid, and with the best correction of each rank.
struct Losses {
  double plain = 0;
  std::vector<double> corrected = {};
};

Losses linear_losses(const Matrix& weight, Matrix fitted, const Evidence& evidence, bool corrected) {
  if (!evidence.inputs) return {rows_lost(weight, rows_of(fitted), {})};
  const tt::KeptMatrix& moment = evidence.inputs->fit.moment;
  if (!corrected) return {tt::output_loss(weight, std::move(fitted), moment)};
  tt::subtract_from(weight, fitted);
  const bool wide = weight.columns > weight.rows;
  const tt::KeptMatrix lost(std::move(fitted));
  Matrix outputs = wide ? Matrix() : tt::multiply(*moment.get(), *lost.get());
  const double plain = wide ? tt::output_norm(*lost.get(), moment) : std::max(0.0, tt::dot(*lost.get(), outputs));
  return {plain, tt::whitened_losses(lost, moment, std::move(outputs))};
}

// Low rank, or the TT form that loses less than it at equal bytes, which is known when it is fitted.
void add_factors(GridMenu& menu, const Candidate& candidate, const Matrix& weight, const Evidence& evidence,
                 const LayerPlan& first) {
  // A share of the squared norm: each of two factors on q8_0 has an error of about .006 of its norm.
  constexpr double rounded = 7e-5;
  const std::vector<double> losses =
      linear_losses(weight, Matrix(weight.rows, weight.columns), evidence, true).corrected;  // of no grid at all
  LayerPlan plan = first;
  plan.form = PlannedForm::automatic;
  for (std::int64_t rank = 8; rank <= break_even_rank(candidate); rank += std::max<std::int64_t>(8, rank / 32 * 8)) {
    plan.rank = rank;
    const double loss = losses[static_cast<std::size_t>(rank)];
    menu.choices.push_back({plan, loss + (plan.cores ? rounded * (menu.norm - loss) : 0)});
  }
}

tt::Chain no_correction(const Candidate& candidate) {
  tt::Chain chain;
  chain.layout = candidate.table ? tt::ttm_layout({candidate.in(), 1}, {1, candidate.out()}, {1, 0, 1})
                                 : tt::tt_layout({candidate.in()}, {candidate.out()}, {1, 0, 1});
  return chain;
}

// A table on the grid of `plan`, with each number of exact rows.
void add_table_choices(GridMenu& menu, const Matrix& table, const Evidence& evidence, LayerPlan plan,
                       const std::vector<std::int64_t>& exact_rows, const std::shared_ptr<const quant::Quantised>& base,
                       bool probes) {
  for (const std::int64_t count : exact_rows) {
    std::vector<std::int32_t> ids;
    if (count > 0) ids = most_frequent_rows(evidence.row_weights, count);
    plan.layout.exact_rows = count;
    const double loss = table_loss(table, *base, evidence, ids);
    if (plan.rank == 0) menu.choices.push_back({plan, loss});
    if (probes) menu.probed.push_back({base, loss, std::move(ids)});
  }
}

}  // namespace

Matrix expand(const Candidate& candidate, const quant::Quantised& base) {
  return candidate.table ? quant::expand_table(base) : quant::expand_linear(base);
}

GridMenu grid_menu(const Candidate& candidate, const Matrix& weight, const Evidence& evidence, const LayerPlan& first,
                   const MenuForms& forms) {
  require_scales(candidate, weight);
  GridMenu menu;
  menu.norm = norm_of(candidate, weight, evidence);
  const std::optional<quant::LinearFit> inputs = fit_of(evidence, 0);
  std::vector<quant::Grid> rising = forms.grids;
  std::ranges::stable_sort(rising, {}, quant::bits_of);
  for (const quant::Grid grid : rising) {
    LayerPlan plan = first;
    plan.form = PlannedForm::grid;
    plan.grid = grid;
    const auto shared = std::make_shared<const quant::Quantised>(on_grid(candidate, weight, inputs, grid));
    const quant::Quantised& base = *shared;
    const bool probes =
        menu.probed.empty() || (quant::bits_of(grid) <= probed_bits && quant::group_of(grid) == quant::block);
    if (candidate.table) {
      add_table_choices(menu, weight, evidence, plan, forms.exact_rows, shared, probes);
      continue;
    }
    const bool corrected = evidence.inputs && (forms.corrections || first.rank != 0);
    const std::vector<std::int64_t> ranks = first.rank != 0 ? std::vector{first.rank} : ranks_of_menu(candidate);
    const Losses losses = linear_losses(weight, quant::expand_linear(base), evidence, corrected);
    const double plain = losses.plain;
    plan.rank = 0;
    if (first.rank == 0 || !corrected) menu.choices.push_back({plan, plain});  // no text reaches it: no correction
    for (std::size_t r = 0; corrected && r < ranks.size(); ++r) {
      plan.rank = ranks[r];
      menu.choices.push_back({plan, losses.corrected[static_cast<std::size_t>(ranks[r])]});
    }
    if (probes) menu.probed.push_back({shared, plain});
  }
  const bool known = evidence.inputs && !candidate.table && first.rank == 0 && candidate.in() <= widest_spectrum;
  if (forms.factors && known) add_factors(menu, candidate, weight, evidence, first);
  return menu;
}

GridFit fit_on_grid(const Candidate& candidate, const Matrix& target, const Evidence& evidence, const LayerPlan& plan) {
  require_scales(candidate, target);
  GridFit fit{{}, no_correction(candidate), {}, {}};
  if (plan.layout.exact_rows > 0)
    set_exact_rows(fit.correction, target, most_frequent_rows(evidence.row_weights, plan.layout.exact_rows));
  if (candidate.also_decodes && evidence.inputs && evidence.divergence) {
    fit.base = fit_words(target, evidence, plan, fit.correction);
    return fit;
  }
  if (candidate.table || !evidence.inputs) {
    fit.base = on_grid(candidate, target, fit_of(evidence, plan.sweeps), plan.grid);
    if (!candidate.table) fit.fitted = quant::expand_linear(fit.base);
    return fit;
  }
  quant::Corrected corrected = quant::fit_corrected(target, {evidence.inputs->fit.moment, evidence.inputs->held.moment},
                                                    plan.grid, plan.rank, rounding_of(candidate, plan), {plan.sweeps});
  if (plan.rank > 0) {
    fit.correction = tt::chain_of_pair(std::move(corrected.correction));
    fit.correction_bytes = store_cores(fit.correction, chain_of(plan, candidate), candidate.type);
    corrected.correction = tt::factors(fit.correction);
  }
  fit.fitted = quant::expand(corrected);
  fit.base = std::move(corrected.base);
  return fit;
}

void measure_fit(const Candidate& candidate, const Matrix& weight, const Matrix& target, GridFit fit,
                 const Evidence& evidence, LayerOutcome& outcome) {
  if (!candidate.table) {
    outcome.rel_error = root_of_ratio(tt::squared_distance(weight, fit.fitted), tt::squared_norm(weight));
    if (evidence.inputs)
      set_output_errors(outcome,
                        errors_of_outputs(candidate, target, std::move(fit.fitted), evidence.inputs->judged.moment));
    return;
  }
  const tt::Chain& chain = fit.correction;
  const FittedRow rows = with_exact_rows(rows_of(fit.base), chain.exact_ids, [&](std::int64_t r) {
    const auto at = std::ranges::lower_bound(chain.exact_ids, r) - chain.exact_ids.begin();
    return chain.exact_rows.data() + at * weight.columns;
  });
  double lost = 0;
  const auto alone = [&](const double* row) { return Matrix(1, weight.columns, {row, row + weight.columns}); };
  for (std::int64_t r = 0; r < weight.rows; ++r) lost += tt::squared_distance(alone(weight.row(r)), alone(rows(r)));
  outcome.rel_error = root_of_ratio(lost, tt::squared_norm(weight));
  if (evidence.inputs) {
    set_output_errors(outcome, decoder_errors(candidate, target, fit.base, evidence.inputs->judged.moment));
  } else if (!evidence.judged_row_weights.empty()) {
    const std::vector<double>& weights = evidence.judged_row_weights;
    outcome.output_error = root_of_ratio(rows_lost(weight, rows, weights), rows_lost(weight, nullptr, weights));
  }
}

}  // namespace comera::compress
