#include "lib/tt/tt_svd.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "lib/core/error.h"
#include "lib/tt/low_rank.h"
#include "lib/tt/weighted_table.h"

namespace comera::tt {
namespace {

constexpr std::int64_t widest_bound = 1500;  // eigenvalues of a wider matrix take longer than the fit
constexpr std::int64_t no_limit = std::numeric_limits<std::int64_t>::max();

struct Limit {
  std::int64_t rank = no_limit;
  double loss = -1;  // squared, absolute; negative: only `rank` limits
};

struct Cut {
  Matrix left, right;  // left orthonormal
  double lost = 0;     // squared
};

std::int64_t rank_within(const std::vector<double>& losses, const Limit& limit) {
  const auto largest = std::min(limit.rank, static_cast<std::int64_t>(losses.size()) - 1);
  if (limit.loss < 0) return largest;
  for (std::int64_t rank = 1; rank < largest; ++rank)
    if (losses[static_cast<std::size_t>(rank)] <= limit.loss) return rank;
  return largest;
}

Cut cut(Matrix a, const Limit& limit) {
  if (limit.loss < 0 && a.rows <= a.columns && limit.rank >= a.rows) return {identity(a.rows), std::move(a), 0};
  if (limit.loss < 0 && limit.rank >= std::min(a.rows, a.columns)) {
    Qr factors = qr(a);
    return {std::move(factors.q), std::move(factors.r), 0};
  }
  const LowRankCurve curve(a, limit.loss < 0 ? limit.rank : 0);
  const std::int64_t rank = std::max<std::int64_t>(1, rank_within(curve.losses(), limit));
  Pair pair = curve.left_orthonormal(rank);
  return {std::move(pair.left), std::move(pair.right), curve.losses()[static_cast<std::size_t>(rank)]};
}

std::vector<Limit> limits(const Truncation& truncation, std::size_t cores, std::size_t middle, double squared) {
  std::vector<Limit> all(cores + 1);
  if (!truncation.ranks.empty()) {
    COMERA_CHECK(truncation.ranks.size() == cores + 1);
    for (std::size_t k = 0; k <= cores; ++k) all[k].rank = truncation.ranks[k];
  }
  if (truncation.tolerance && cores > 1)
    for (Limit& limit : all)
      limit.loss = *truncation.tolerance * *truncation.tolerance * squared / static_cast<double>(cores - 1);
  if (truncation.middle_rank) all[middle].rank = std::min(all[middle].rank, *truncation.middle_rank);
  return all;
}

// Result of successive cuts from the left of a tensor with these entry sizes, stored row major.
struct Train {
  std::vector<std::vector<double>> cores;
  Sizes ranks{1};
  std::vector<double> discarded;
};

Train split(Matrix rest, const Sizes& sizes, const std::vector<Limit>& limits) {
  const double norm = std::sqrt(squared_norm(rest));
  Train train;
  for (std::size_t k = 0; k + 1 < sizes.size(); ++k) {
    const std::int64_t rows = train.ranks[k] * sizes[k], columns = static_cast<std::int64_t>(rest.values.size()) / rows;
    Cut parts = cut(reshaped(std::move(rest), rows, columns), limits[k + 1]);
    train.discarded.push_back(norm > 0 ? std::sqrt(parts.lost) / norm : 0);
    train.ranks.push_back(parts.left.columns);
    train.cores.push_back(std::move(parts.left.values));
    rest = std::move(parts.right);
  }
  train.cores.push_back(std::move(rest.values));
  train.ranks.push_back(1);
  return train;
}

double table_error(const Matrix& table, const Chain& chain) {
  const Matrix fitted = first_rows(expand(chain), table.rows);
  return relative_error(table, fitted);
}

// Right-to-left QR sweep: every core but the first becomes orthonormal, and the remaining factor moves to its left
// neighbour.
void orthogonalise(Chain& chain) {
  Sizes& ranks = chain.layout.ranks;
  for (std::size_t k = chain.cores.size() - 1; k > 0; --k) {
    const std::int64_t left = ranks[k];
    const std::int64_t rest = static_cast<std::int64_t>(chain.cores[k].size()) / left;
    const Matrix core(left, rest, std::move(chain.cores[k]));
    Qr factors = qr(transposed(core));  // core = rᵀ qᵀ
    const Matrix neighbour = folded(std::move(chain.cores[k - 1]), left);
    chain.cores[k] = transposed(factors.q).values;
    chain.cores[k - 1] = multiply_nt(neighbour, factors.r).values;
    ranks[k] = factors.q.columns;
  }
}

// Numbers of a matrix with as many rows as `by` has entries: row i times by[i], or its inverse.
void scale_rows(std::vector<double>& numbers, const std::vector<double>& by, bool inverse) {
  const std::size_t columns = numbers.size() / by.size();
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] *= inverse ? 1 / by[i / columns] : by[i / columns];
}

void scale_columns(std::vector<double>& numbers, const std::vector<double>& by) {
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] *= by[i % by.size()];
}

// Positive: a diagonal and its inverse between two cores change nothing, so values near zero may be replaced.
std::vector<double> roots_of(const std::vector<double>& values) {
  const double least = values[0] > 0 ? 1e-12 * values[0] : 1;
  std::vector<double> roots;
  for (const double value : values) roots.push_back(std::sqrt(std::max(value, least)));
  return roots;
}

}  // namespace

Fit tt_svd(const Matrix& weight, const Sizes& in_modes, const Sizes& out_modes, const Truncation& truncation) {
  if (product(in_modes) != weight.rows || product(out_modes) != weight.columns)
    fail_input("[tt] modes {} | {} do not multiply to {} x {}", to_string(in_modes), to_string(out_modes), weight.rows,
               weight.columns);
  check_finite(weight, "[tt] weight");
  Sizes sizes = in_modes;
  sizes.insert(sizes.end(), out_modes.begin(), out_modes.end());
  Train train = split(weight, sizes, limits(truncation, sizes.size(), in_modes.size(), squared_norm(weight)));
  Fit fit;
  fit.discarded = std::move(train.discarded);
  fit.chain.layout = tt_layout(in_modes, out_modes, std::move(train.ranks));
  fit.chain.cores = std::move(train.cores);
  fit.rel_error = relative_error(weight, expand(fit.chain));
  return fit;
}

Fit ttm_svd(const Matrix& table, const Sizes& row_modes, const Sizes& column_modes, const Truncation& truncation,
            const std::vector<double>& row_weights) {
  if (product(row_modes) < table.rows || product(column_modes) != table.columns ||
      row_modes.size() != column_modes.size())
    fail_input("[ttm] row modes {} and column modes {} do not hold a table of {} x {}", to_string(row_modes),
               to_string(column_modes), table.rows, table.columns);
  if (!row_weights.empty() && static_cast<std::int64_t>(row_weights.size()) != table.rows)
    fail_input("[ttm] {} row weights were given for a table of {} rows", row_weights.size(), table.rows);
  check_finite(table, "[ttm] table");
  Fit fit;
  fit.chain.layout = ttm_layout(row_modes, column_modes, {});
  const ModeFactors factors = row_weights.empty() ? ModeFactors() : separable_factors(row_weights, row_modes);
  Matrix tensor = in_core_order(table, row_modes, column_modes,
                                row_weights.empty() ? row_weights : row_factors(factors, table.rows));
  const double squared = squared_norm(tensor);
  Train train =
      split(std::move(tensor), fit.chain.layout.entry_sizes(), limits(truncation, row_modes.size(), 0, squared));
  fit.discarded = std::move(train.discarded);
  fit.chain.layout.ranks = std::move(train.ranks);
  fit.chain.cores = std::move(train.cores);
  if (!row_weights.empty()) {
    divide_rows(fit.chain, factors);
    refine_weighted(fit.chain, table, row_weights);
  }
  fit.rel_error = table_error(table, fit.chain);
  return fit;
}

double ttm_error_bound(const Matrix& table, const Sizes& row_modes, const Sizes& column_modes, const Sizes& ranks,
                       const std::vector<double>& row_weights) {
  COMERA_CHECK(row_modes.size() == column_modes.size() && ranks.size() == row_modes.size() + 1);
  const std::int64_t slice = product(row_modes) / row_modes[0];
  Sizes whole = row_modes;
  whole[0] = table.rows / slice;
  if (whole[0] == 0) return 0;
  std::vector<double> factors;
  double least = 1;  // smallest ratio of a row's own factor to that of the product
  if (!row_weights.empty()) {
    factors = row_factors(separable_factors(row_weights, row_modes), table.rows);
    least = std::numeric_limits<double>::infinity();
    for (std::int64_t i = 0; i < whole[0] * slice; ++i)
      least =
          std::min(least, std::sqrt(row_weights[static_cast<std::size_t>(i)]) / factors[static_cast<std::size_t>(i)]);
  }
  Matrix tensor = in_core_order(first_rows(table, whole[0] * slice), whole, column_modes, factors);
  double worst = 0;
  const std::int64_t numbers = std::ssize(tensor.values);
  std::int64_t rows = 1;
  for (std::size_t k = 0; k + 1 < whole.size(); ++k) {
    rows *= whole[k] * column_modes[k];
    tensor = reshaped(std::move(tensor), rows, numbers / rows);
    if (std::min(tensor.rows, tensor.columns) > widest_bound) continue;
    const std::vector<double> squares =
        symmetric_eigenvalues(tensor.rows <= tensor.columns ? gram_of_rows(tensor) : gram(tensor));
    double tail = 0;
    for (std::size_t r = static_cast<std::size_t>(ranks[k + 1]); r < squares.size(); ++r)
      tail += std::max(squares[r], 0.0);
    worst = std::max(worst, tail);
  }
  double squared = 0;
  for (std::int64_t i = 0; i < table.rows; ++i)
    squared += (row_weights.empty() ? 1 : row_weights[static_cast<std::size_t>(i)]) *
               std::inner_product(table.row(i), table.row(i) + table.columns, table.row(i), 0.0);
  return squared > 0 ? least * std::sqrt(worst / squared) : 0;
}

Balanced balance_chain(Chain chain) {
  COMERA_CHECK(!chain.layout.gauge);
  orthogonalise(chain);
  std::vector<std::vector<double>> values;
  for (std::size_t k = 0; k + 1 < chain.cores.size(); ++k) {
    Svd parts = svd(folded(std::move(chain.cores[k]), chain.layout.ranks[k + 1]));
    const std::int64_t old = parts.right.columns, beyond = static_cast<std::int64_t>(chain.cores[k + 1].size()) / old;
    scale_rows(parts.right.values, parts.values, false);
    const Matrix next(old, beyond, std::move(chain.cores[k + 1]));
    chain.cores[k + 1] = multiply(parts.right, next).values;
    chain.layout.ranks[k + 1] = parts.left.columns;
    chain.cores[k] = std::move(parts.left.values);
    values.push_back(std::move(parts.values));
  }
  for (std::size_t bond = 0; bond < values.size(); ++bond) {
    const std::vector<double> roots = roots_of(values[bond]);
    scale_columns(chain.cores[bond], roots);
    scale_rows(chain.cores[bond + 1], roots, true);
  }
  return {std::move(chain), std::move(values)};
}

Fit round_chain(const Chain& chain, const Truncation& truncation) {
  COMERA_CHECK(!chain.layout.gauge);
  Fit fit;
  fit.chain = chain;
  orthogonalise(fit.chain);
  const double squared =
      squared_norm(Matrix(1, static_cast<std::int64_t>(fit.chain.cores[0].size()), fit.chain.cores[0]));
  const std::vector<Limit> all = limits(truncation, chain.cores.size(), chain.layout.inputs(), squared);
  double lost = 0;
  for (std::size_t k = 0; k + 1 < chain.cores.size(); ++k) {
    const std::int64_t rank = fit.chain.layout.ranks[k + 1];
    Cut parts = cut(folded(std::move(fit.chain.cores[k]), rank), all[k + 1]);
    const std::int64_t beyond = static_cast<std::int64_t>(fit.chain.cores[k + 1].size()) / rank;
    const Matrix next(rank, beyond, std::move(fit.chain.cores[k + 1]));
    fit.discarded.push_back(squared > 0 ? std::sqrt(parts.lost / squared) : 0);
    lost += parts.lost;
    fit.chain.layout.ranks[k + 1] = parts.left.columns;
    fit.chain.cores[k] = std::move(parts.left.values);
    fit.chain.cores[k + 1] = multiply(parts.right, next).values;
  }
  // Both sides of every cut are orthonormal, so the squares add up exactly.
  fit.rel_error = squared > 0 ? std::sqrt(lost / squared) : 0;
  return fit;
}

}  // namespace comera::tt
