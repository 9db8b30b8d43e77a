#include "lib/compress/fit/layer.h"

#include <algorithm>
#include <cmath>

#include "lib/compress/fit/row_errors.h"
#include "lib/core/error.h"
#include "lib/core/hash.h"
#include "lib/core/terminal/log.h"
#include "lib/tt/data_aware.h"
#include "lib/tt/low_rank.h"
#include "lib/tt/tt_svd.h"

namespace comera::compress {
namespace {

using tt::Matrix;

// Row weights for the fit. Exact rows have weight 0, because the chain's values for them are not used.
std::vector<double> fitted_weights(const Evidence& evidence) {
  std::vector<double> weights = evidence.row_weights;
  for (const std::int32_t row : evidence.exact_rows) weights[static_cast<std::size_t>(row)] = 0;
  return weights;
}

// The best projection of a table's rows under row weights. The projection acts on unscaled rows, so the weights need
// not be divided out.
class TableCurve {
 public:
  TableCurve(const Matrix& table, const Evidence& evidence) {
    tt::SymmetricEigen eigen = tt::symmetric_eigen(weighted_gram(table, fitted_weights(evidence)));
    basis_ = std::move(eigen.vectors);
    losses_.assign(eigen.values.size() + 1, 0);
    for (std::size_t r = eigen.values.size(); r-- > 0;) losses_[r] = losses_[r + 1] + std::max(eigen.values[r], 0.0);
    // Errors are relative to the whole table.
    if (!evidence.exact_rows.empty()) losses_[0] = rows_lost(table, nullptr, evidence.row_weights);
  }

  const std::vector<double>& losses() const { return losses_; }
  tt::Pair pair(const Matrix& table, std::int64_t rank) const {
    Matrix right = tt::first_rows(basis_, rank);
    return {tt::multiply_nt(table, right), std::move(right)};
  }

 private:
  static Matrix weighted_gram(const Matrix& table, const std::vector<double>& weights) {
    if (weights.empty()) return tt::gram(table);
    Matrix scaled = table;
    for (std::int64_t i = 0; i < table.rows; ++i) {
      const double factor = std::sqrt(weights[static_cast<std::size_t>(i)]);
      for (std::int64_t j = 0; j < table.columns; ++j) scaled(i, j) *= factor;
    }
    return tt::gram(scaled);
  }

  Matrix basis_;
  std::vector<double> losses_;
};

tt::CoreBlocks blocks_of(const LayerPlan& plan, const Candidate& candidate) {
  if (plan.cores) return {quant::group_of(*plan.cores), quant::line_bytes(*plan.cores, quant::group_of(*plan.cores))};
  return {1, static_cast<std::int64_t>(io::size_of(candidate.type))};
}

tt::Chain table_pair(tt::Pair pair) {
  tt::Chain chain;
  chain.layout = tt::ttm_layout({pair.left.rows, 1}, {1, pair.right.columns}, {1, pair.left.columns, 1});
  chain.cores = {std::move(pair.left.values), std::move(pair.right.values)};
  return chain;
}

}  // namespace

Matrix target_of(const Matrix& weight, const MomentGroup& inputs) {
  if (!inputs.moved()) return weight;
  return tt::best_target(weight, {inputs.fit.moment, inputs.fit.products}, {inputs.held.moment, inputs.held.products});
}

void set_output_errors(LayerOutcome& outcome, const tt::OutputErrors& errors) {
  outcome.output_error = errors.share;
  outcome.direction_error = errors.direction;
}

struct LayerFactors::Curve {
  std::optional<tt::LowRankCurve> plain;
  std::optional<tt::WhitenedCurve> whitened;
  std::optional<TableCurve> table;

  const std::vector<double>& losses() const {
    return whitened ? whitened->losses() : table ? table->losses() : plain->losses();
  }
  double best_loss(std::size_t rank) const {
    return plain ? plain->best_loss(static_cast<std::int64_t>(rank)) : losses()[rank];
  }
  tt::Pair pair(const Matrix& weight, std::int64_t rank) const {
    return whitened ? whitened->pair(rank) : table ? table->pair(weight, rank) : plain->pair(rank);
  }
};

LayerFactors::LayerFactors(const Candidate& candidate, Matrix weight, Evidence evidence, std::int64_t largest_rank)
    : candidate_(candidate),
      evidence_(std::move(evidence)),
      weight_(std::make_shared<const Matrix>(std::move(weight))),
      target_(weight_),
      curve_(std::make_unique<Curve>()) {
  if (evidence_.inputs && evidence_.inputs->moved()) target_ = target_of(*weight_, *evidence_.inputs);
  if (candidate.table && (!evidence_.row_weights.empty() || candidate.out() <= widest_spectrum))
    curve_->table.emplace(*weight_, evidence_);
  else if (evidence_.inputs)
    curve_->whitened.emplace(target_, evidence_.inputs->fit.moment);
  else
    curve_->plain.emplace(*weight_, largest_rank);
}

std::vector<double> layer_losses(const Candidate& candidate, Matrix weight, Evidence evidence) {
  if (!evidence.given()) return tt::low_rank_losses(weight);
  return LayerFactors(candidate, std::move(weight), std::move(evidence), 0).losses();
}

LayerFactors::~LayerFactors() = default;

const std::vector<double>& LayerFactors::losses() const { return curve_->losses(); }

tt::Chain LayerFactors::fit_table(const LayerPlan& plan) const {
  if (plan.form != PlannedForm::ttm) return table_pair(curve_->pair(weight(), plan.rank));
  const tt::Sizes ranks = chain_of(plan, candidate_).layout.ranks;
  return tt::ttm_svd(weight(), plan.layout.in_modes(), plan.layout.out_modes(),
                     {.ranks = ranks, .tolerance = {}, .middle_rank = {}}, fitted_weights(evidence_))
      .chain;
}

tt::Chain LayerFactors::fit(const LayerPlan& plan) const {
  const io::ChainSpec wanted = chain_of(plan, candidate_);
  if (candidate_.table) {
    tt::Chain chain = fit_table(plan);
    set_exact_rows(chain, *weight_, evidence_.exact_rows);
    return chain;
  }
  if (plan.form == PlannedForm::automatic && evidence_.inputs) {
    tt::Search search;
    search.bytes = static_cast<std::int64_t>(planned_bytes(plan, candidate_));
    search.storage = {blocks_of(plan, candidate_), plan.layout.gauge && !plan.cores};
    search.shrinkage = {0, 0.03, 0.1};
    return tt::best_candidate(target_, evidence_.inputs->fit.moment, evidence_.inputs->held.moment, search,
                              &*curve_->whitened)
        .chain;
  }
  tt::Chain chain;
  if (plan.form != PlannedForm::tt)
    chain = tt::chain_of_pair(curve_->pair(weight(), plan.rank));
  else if (evidence_.inputs && wanted.layout.inputs() == 2 && wanted.layout.cores() == 3)
    chain = tt::fit_order3(target(), *evidence_.inputs->fit.moment.get(),
                           {wanted.layout.modes[0], wanted.layout.modes[1], wanted.layout.ranks[1], plan.rank});
  else
    chain = tt::tt_svd(weight(), wanted.layout.in_modes(), wanted.layout.out_modes(),
                       {.ranks = wanted.layout.ranks, .tolerance = {}, .middle_rank = {}})
                .chain;
  return wanted.layout.gauge ? tt::fix_gauge(std::move(chain)) : chain;
}

Matrix LayerFactors::approximation(std::int64_t rank) const {
  const tt::Pair pair = curve_->pair(weight(), rank);
  Matrix all = tt::multiply(pair.left, pair.right);
  for (const std::int32_t row : evidence_.exact_rows) std::copy_n(weight_->row(row), weight_->columns, all.row(row));
  return all;
}

void LayerFactors::measure_outputs(const tt::Chain& chain, LayerOutcome& outcome) const {
  Matrix fitted = tt::expand(chain);
  if (fitted.rows > weight().rows)
    fitted = tt::first_rows(fitted, weight().rows);  // removes the padding rows of a table
  if (evidence_.inputs) {
    tt::subtract_from(target(), fitted);
    set_output_errors(outcome, tt::errors_of_outputs(target(), fitted, evidence_.inputs->judged.moment));
    outcome.error_of_optimum = tt::output_share(target(), fitted, evidence_.inputs->fit.moment);
    return;
  }
  const auto error = [&](const std::vector<double>& weights) {
    return root_of_ratio(rows_lost(weight(), rows_of(fitted), weights), rows_lost(weight(), nullptr, weights));
  };
  outcome.error_of_optimum = error(evidence_.row_weights);
  outcome.output_error = error(evidence_.judged_row_weights);
}

void LayerFactors::measure(const tt::Chain& chain, LayerOutcome& outcome) const {
  outcome.error_of_optimum = outcome.rel_error = tt::chain_error(weight(), chain);
  if (evidence_.given()) measure_outputs(chain, outcome);
  const tt::Layout& layout = chain.layout;
  if (layout.kind == tt::Kind::ttm && layout.in_modes().back() != 1) {
    const double bound =
        tt::ttm_error_bound(weight(), layout.in_modes(), layout.out_modes(), layout.ranks, fitted_weights(evidence_));
    if (bound > 0) outcome.optimum = bound;  // the bound is 0 if all rows that count are exact
    return;
  }
  const auto rank = static_cast<std::size_t>(layout.ranks[layout.middle()]);
  if (rank < losses().size()) outcome.optimum = root_of_ratio(curve_->best_loss(rank), losses()[0]);
}

Matrix read_weight(const io::ModelFolder& folder, const Candidate& candidate) {
  const io::ModelFolder::Entry& entry = *folder.find(candidate.tensor);
  const io::WeightFile& file = folder.file_of(entry);
  Matrix weight(candidate.in(), candidate.out());
  const std::int64_t rows = candidate.shape[0], columns = candidate.shape[1];
  const bool turned = rows != weight.rows || (!candidate.table && !candidate.conv1d);
  file.read_rows(entry.tensor, [&](std::int64_t first, std::span<const float> part) {
    const std::int64_t count = std::ssize(part) / columns;
    for (std::int64_t j = 0; j < columns; ++j)
      for (std::int64_t i = 0; i < count; ++i) {
        const double value = part[static_cast<std::size_t>(i * columns + j)];
        (turned ? weight(j, first + i) : weight(first + i, j)) = value;
      }
  });
  file.forget(entry.tensor);
  return weight;
}

io::ChainSpec describe(const tt::Chain& chain, const Candidate& candidate) {
  io::ChainSpec spec;
  spec.name = candidate.name;
  spec.bare = candidate.bare();
  spec.shape = candidate.shape;
  spec.layout = chain.layout;
  spec.initial_ranks = chain.layout.ranks;
  spec.folded = true;
  spec.dense_type = candidate.type;
  spec.conv1d = !spec.table() && candidate.conv1d;
  return spec;
}

void set_exact_rows(tt::Chain& chain, const Matrix& table, const std::vector<std::int32_t>& ids) {
  chain.exact_ids = ids;
  chain.layout.exact_rows = std::ssize(ids);
  for (const std::int32_t row : ids)
    chain.exact_rows.insert(chain.exact_rows.end(), table.row(row), table.row(row) + table.columns);
}

std::string hash_chain(const io::ModelFolder& folder, const io::ChainSpec& spec, io::StoredType type) {
  Hasher hasher;
  for (const io::TensorToWrite& wanted : tensors_of(spec, type)) {
    const io::ModelFolder::Entry* entry = folder.find(wanted.name);
    if (!entry) fail_input("{}: tensor {} is missing", folder.path(), printable(wanted.name));
    const io::StoredBytes bytes = folder.file_of(*entry).bytes(entry->tensor);
    hasher.update(bytes.data(), bytes.size());
  }
  return hasher.hex();
}

}  // namespace comera::compress
