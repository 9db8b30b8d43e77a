#include "lib/tt/weighted_table.h"

#include <algorithm>
#include <cmath>

#include "lib/core/error.h"

namespace comera::tt {
namespace {

constexpr std::int64_t widest_normal_matrix = 1500;
// Share of the mean weight; a row that never occurs must not vanish from the scaled table.
constexpr double least_weight = 1e-6;

std::vector<std::int64_t> offsets(const Sizes& modes, const Sizes& strides) {
  std::vector<std::int64_t> all{0};
  for (std::size_t k = 0; k < modes.size(); ++k) {
    std::vector<std::int64_t> next;
    next.reserve(all.size() * static_cast<std::size_t>(modes[k]));
    for (const std::int64_t offset : all)
      for (std::int64_t i = 0; i < modes[k]; ++i) next.push_back(offset + i * strides[k]);
    all = std::move(next);
  }
  return all;
}

Sizes slice(const Sizes& sizes, std::size_t begin, std::size_t end) {
  return Sizes(sizes.begin() + static_cast<std::ptrdiff_t>(begin), sizes.begin() + static_cast<std::ptrdiff_t>(end));
}

// One core of a table's chain, with the cores before and after it merged.
struct Slot {
  std::size_t core;
  std::int64_t left_rank, right_rank, mode, columns;  // r, r', m_k, n_k
  Matrix left, right;  // [alpha x r], [beta x r']: alpha and beta run over (i j) of the cores before and after
};

Slot slot_of(const Chain& chain, std::size_t k) {
  const Layout& layout = chain.layout;
  const std::size_t d = layout.cores();
  Slot slot{k, layout.ranks[k], layout.ranks[k + 1], layout.modes[k], layout.modes[d + k], merge_cores(chain, 0, k),
            {}};
  const Matrix rest = merge_cores(chain, k + 1, d);
  slot.right =
      transposed(reshaped(rest, slot.right_rank, static_cast<std::int64_t>(rest.values.size()) / slot.right_rank));
  return slot;
}

// Row i: sum over j of the products a[(i j), p] a[(i j), q], [rows x r²].
Matrix row_grams(const Matrix& a, const Sizes& row_modes, const Sizes& column_modes) {
  const Places at = places(row_modes, column_modes);
  Matrix grams(static_cast<std::int64_t>(at.rows.size()), a.columns * a.columns);
  for (std::int64_t i = 0; i < grams.rows; ++i)
    for (const std::int64_t column : at.columns) {
      const double* v = a.row(at.rows[static_cast<std::size_t>(i)] + column);
      for (std::int64_t p = 0; p < a.columns; ++p)
        for (std::int64_t q = 0; q < a.columns; ++q) grams(i, p * a.columns + q) += v[p] * v[q];
    }
  return grams;
}

// The weights of the rows (before, i, after) as [before x after].
Matrix weights_of(const std::vector<double>& weights, std::int64_t before, std::int64_t mode, std::int64_t after,
                  std::int64_t i) {
  Matrix f(before, after);
  for (std::int64_t p = 0; p < before; ++p)
    for (std::int64_t s = 0; s < after; ++s) {
      const std::int64_t row = (p * mode + i) * after + s;
      if (row < static_cast<std::int64_t>(weights.size())) f(p, s) = weights[static_cast<std::size_t>(row)];
    }
  return f;
}

// Solves for G[:, i, :, :] for every row index i of the slot's core. `wanted` [(r m n) x r'] holds the right sides.
void solve_slices(const Chain& chain, const Slot& slot, const std::vector<double>& weights, Matrix& wanted) {
  const std::size_t k = slot.core, d = chain.layout.cores();
  const Sizes rows = chain.layout.in_modes(), columns = chain.layout.out_modes();
  const Matrix left = row_grams(slot.left, slice(rows, 0, k), slice(columns, 0, k));
  const Matrix right = row_grams(slot.right, slice(rows, k + 1, d), slice(columns, k + 1, d));
  const std::int64_t r = slot.left_rank, s = slot.right_rank, n = slot.columns;
  Matrix side(r * s, n);
  for (std::int64_t i = 0; i < slot.mode; ++i) {
    const Matrix f = weights_of(weights, left.rows, slot.mode, right.rows, i);
    const Matrix normal = regrouped(multiply_tn(left, multiply(f, right)), r, r, s, s);
    const auto entry = [&](std::int64_t a, std::int64_t j, std::int64_t b) -> double& {
      return wanted((a * slot.mode + i) * n + j, b);
    };
    for (std::int64_t a = 0; a < r; ++a)
      for (std::int64_t b = 0; b < s; ++b)
        for (std::int64_t j = 0; j < n; ++j) side(a * s + b, j) = entry(a, j, b);
    solve_positive(normal, side);
    for (std::int64_t a = 0; a < r; ++a)
      for (std::int64_t b = 0; b < s; ++b)
        for (std::int64_t j = 0; j < n; ++j) entry(a, j, b) = side(a * s + b, j);
  }
}

}  // namespace

Places places(const Sizes& row_modes, const Sizes& column_modes) {
  Sizes row_strides(row_modes.size()), column_strides(row_modes.size());
  std::int64_t stride = 1;
  for (std::size_t k = row_modes.size(); k-- > 0;) {
    column_strides[k] = stride;
    row_strides[k] = stride * column_modes[k];
    stride *= row_modes[k] * column_modes[k];
  }
  return {offsets(row_modes, row_strides), offsets(column_modes, column_strides)};
}

Matrix in_core_order(const Matrix& table, const Sizes& row_modes, const Sizes& column_modes,
                     const std::vector<double>& row_factors) {
  const Places at = places(row_modes, column_modes);
  Matrix tensor(1, product(row_modes) * product(column_modes));
  for (std::int64_t i = 0; i < table.rows; ++i) {
    const double factor = row_factors.empty() ? 1 : row_factors[static_cast<std::size_t>(i)];
    double* to = tensor.values.data() + at.rows[static_cast<std::size_t>(i)];
    for (std::int64_t j = 0; j < table.columns; ++j) to[at.columns[static_cast<std::size_t>(j)]] = factor * table(i, j);
  }
  return tensor;
}

ModeFactors separable_factors(const std::vector<double>& weights, const Sizes& row_modes) {
  const auto count = static_cast<double>(weights.size());
  double mean = 0, level = 0;
  for (const double weight : weights) mean += weight / count;
  const auto log_of = [&](double weight) { return std::log(std::max(weight, least_weight * mean)); };
  if (mean <= 0)
    fail_input("[ttm] the weights of {} rows are all 0; give the frequency of at least one", weights.size());
  for (const double weight : weights) level += log_of(weight) / count;
  ModeFactors factors, counts;
  for (const std::int64_t mode : row_modes) {
    factors.emplace_back(static_cast<std::size_t>(mode));
    counts.emplace_back(static_cast<std::size_t>(mode));
  }
  for (std::size_t row = 0; row < weights.size(); ++row) {
    auto rest = static_cast<std::int64_t>(row);
    for (std::size_t k = row_modes.size(); k-- > 0; rest /= row_modes[k]) {
      factors[k][static_cast<std::size_t>(rest % row_modes[k])] += log_of(weights[row]) - level;
      counts[k][static_cast<std::size_t>(rest % row_modes[k])] += 1;
    }
  }
  for (std::size_t k = 0; k < factors.size(); ++k)
    for (std::size_t i = 0; i < factors[k].size(); ++i)
      factors[k][i] = std::exp(0.5 * factors[k][i] / std::max(1.0, counts[k][i]));
  return factors;
}

std::vector<double> row_factors(const ModeFactors& factors, std::int64_t rows) {
  std::vector<double> all(static_cast<std::size_t>(rows), 1.0);
  for (std::int64_t row = 0; row < rows; ++row) {
    std::int64_t rest = row;
    for (std::size_t k = factors.size(); k-- > 0;) {
      const auto mode = static_cast<std::int64_t>(factors[k].size());
      all[static_cast<std::size_t>(row)] *= factors[k][static_cast<std::size_t>(rest % mode)];
      rest /= mode;
    }
  }
  return all;
}

void divide_rows(Chain& chain, const ModeFactors& factors) {
  for (std::size_t k = 0; k < factors.size(); ++k) {
    const Sizes shape = chain.layout.core_shape(k);
    const auto block = static_cast<std::size_t>(shape[2] * shape[3]), mode = static_cast<std::size_t>(shape[1]);
    for (std::size_t at = 0; at < chain.cores[k].size(); ++at) chain.cores[k][at] /= factors[k][at / block % mode];
  }
}

void refine_weighted(Chain& chain, const Matrix& table, const std::vector<double>& row_weights, int sweeps) {
  COMERA_CHECK(chain.layout.kind == Kind::ttm && static_cast<std::int64_t>(row_weights.size()) == table.rows);
  const Matrix tensor = in_core_order(table, chain.layout.in_modes(), chain.layout.out_modes(), row_weights);
  for (int sweep = 0; sweep < sweeps; ++sweep)
    for (std::size_t k = 0; k < chain.cores.size(); ++k) {
      if (chain.layout.ranks[k] * chain.layout.ranks[k + 1] > widest_normal_matrix) continue;
      const Slot slot = slot_of(chain, k);
      const std::int64_t rest = static_cast<std::int64_t>(tensor.values.size()) / slot.left.rows;
      const Matrix half = multiply_tn(slot.left, reshaped(tensor, slot.left.rows, rest));
      Matrix wanted = multiply(
          reshaped(half, static_cast<std::int64_t>(half.values.size()) / slot.right.rows, slot.right.rows), slot.right);
      solve_slices(chain, slot, row_weights, wanted);
      chain.cores[k] = std::move(wanted.values);
    }
}

}  // namespace comera::tt
